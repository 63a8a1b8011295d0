"""Which check speaks in a reason that was stored as a text, by versions that stored no other.

The table holds the words of those versions and does not follow today's: new reasons name their check themselves.
"""

from __future__ import annotations

import re

#: Reasons were joined by "; ", and these words followed one within a reason.
_WITHIN_A_REASON = (
    "use more shards or a lower load",
    "the median latency is ",
    "the latencies are of the others only",
    "measure longer",
)
_COUNTED = r"\d+ of \d+ (records|requests)"
#: Check -> how its text begins.
_BEGINNINGS: dict[str, str] = {
    "empty": r"\d+ requests were measured",
    "repeated_records": rf"{_COUNTED} carry a request id",
    "mislabelled_records": rf"{_COUNTED} lie on the other side of the measured window",
    "backward_records": rf"{_COUNTED} have an answer before their request",
    "client_stall": r"the sender of shard \d+ was held up",
    "client_cpu": r"the sender of shard \d+ used .* of a core",
    "dropped": rf"{_COUNTED} were never sent",
    "errors": rf"{_COUNTED} failed",
    "unrecorded": r"\d+ requests were planned and",
    "schedule_moved": rf"{_COUNTED} were recorded with an intended time",
    "lateness_p50": r"half of the requests left more than",
    "lateness_p99": r"1% of the requests left more than",
    "lateness_max": r"the worst request left",
    "sent_early": rf"{_COUNTED} left before their time",
    "client_share": r"the \w+ is .* from the intended moment but",
    "rate": r".* requests/s were sent of",
    "gaps": r".* of the gaps between requests differ",
    "completions": r"no answer arrived while requests were being sent",
    "in_flight": r"on average .* users were in flight or thinking",
    "in_flight_max": r"\d+ requests were in flight at once",
    "littles_law": r"by Little's law",
    "loadgen_count": r"MLPerf LoadGen counted",
    "ended_early": r"the load ended early: ",
    "certificate": r"the certificate of the load is not valid",
}
_INTERFERENCE: dict[str, str] = {
    "steal": r"the hypervisor took",
    "foreign_cpu": r"processes that are neither server nor load used",
    "waited_for_cpu": r"the server waited for a core",
    "host_clock": r"the processor's clock moved",
    "gpu_clock": r"the GPU's clock moved",
    "gpu_throttling": r"the GPU was held back",
    "gpu_ecc": r".* uncorrected ECC error",
    "foreign_gpu_process": r"\d+ process(es|\(es\)) used the GPU",
}
_NEIGHBOUR = re.compile(r"the neighbour .+?: (.*)", re.DOTALL)


def split_reasons(text: str) -> list[str]:
    """The reasons of an invalid run, as they were joined; "" gives none."""
    reasons: list[str] = []
    for piece in text.split("; ") if text else ():
        if reasons and piece.startswith(_WITHIN_A_REASON):
            reasons[-1] += f"; {piece}"
        else:
            reasons.append(piece)
    return reasons


def check_of(text: str) -> str | None:
    """The check that a reason's text is of; None for one that is not of this project's."""
    if text.startswith("interference: "):
        return f"interference.{_named(text.removeprefix('interference: '), _INTERFERENCE) or 'unknown'}"
    if neighbour := _NEIGHBOUR.fullmatch(text):
        return f"neighbour.{_named(neighbour[1], _BEGINNINGS) or 'unknown'}"
    return _named(text, _BEGINNINGS)


def _named(text: str, beginnings: dict[str, str]) -> str | None:
    return next((check for check, words in beginnings.items() if re.match(words, text)), None)
