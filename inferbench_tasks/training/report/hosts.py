"""What a report says of the two hosts of a training, and of the network between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.report.views import TrainingView
from inferbench_tasks.training.result import host_names

_NOTE = (
    "The network as it was measured before the epochs and after them: round trips of a byte and its answer (50%), and "
    "the payload of one TCP connection each way. Nothing of it is taken off the phases. Times are durations by the "
    "clock of each rank's own host; how far moments of both may be misplaced beside each other is said last."
)


def links(views: Sequence[TrainingView]) -> list[dict[str, Any]]:
    """A line for each run on two hosts; [] without one."""
    rows = [_row(view) for view in views if view.result.extensions.get("link")]
    if not rows:
        return []
    head = [
        "run", "hosts", "round trip before, ms", "after, ms", "to the first before, Mbit/s", "after, Mbit/s",
        "from the first before, Mbit/s", "after, Mbit/s", "clocks within, ms",
    ]  # fmt: skip
    return [{"title": "", "head": head, "rows": rows, "numbers": list(range(2, 9)), "note": _NOTE}]


def _row(view: TrainingView) -> list[str]:
    extensions = view.result.extensions
    before, after = extensions["link"]["before"], extensions["link"].get("after") or {}
    error_ns = (extensions.get("hosts_clock") or {}).get("error_ns")
    trips = [(link.get("round_trip") or {}).get("p50_ms") for link in (before, after)]
    rates = [link.get(way) for way in ("up_mbit_s", "down_mbit_s") for link in (before, after)]
    cells = [*trips, *rates, None if error_ns is None else error_ns / 1e6]
    return [view.label, " and ".join(host_names(view.result)), *(number(cell) for cell in cells)]


def second(extensions: Mapping[str, Any]) -> dict[str, Any]:
    """Hardware, system and versions of the second host, beside those of the first; {} of a run on one."""
    hosts = extensions.get("hosts") or []
    names = ("host", "cores", "hardware", "system", "versions")
    return {"second host": {name: hosts[1][name] for name in names}} if len(hosts) > 1 else {}
