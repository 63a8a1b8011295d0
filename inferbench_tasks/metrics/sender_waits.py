"""Whether a sender that was late, or held up, was kept from its core: then that is the machine's doing.

A sender that waits for a core is as late as one that is slow, and makes the same percentiles. The kernel tells them
apart: it counts how long each thread was ready to run and had no core, and how often it got one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.contracts.verdict import INTERFERENCE, Reason
from inferbench_tasks.loadgen.heartbeat import MIN_STALL_NS, SUMMED_STALL_NS
from inferbench_tasks.metrics.base import Measured

#: A check of the sender's time -> what of its figure was waits for a core, by ``what_it_waited``. Checks of what was
#: sent (gaps, rate, dropped) are not among them: whatever made it, another load was sent. ``host_``: of one of two
#: hosts that share a load, of which what both waited counts.
_SENDERS_TIME = {
    "client_stall": "longest_ms", "client_stalled": "stalled_ratio", "client_share_p50": "typical_ms",
    "lateness_p50": "typical_ms", "lateness_p99": "p99_ms", "lateness_max": "longest_ms", "client_share": "p99_ms",
    "in_flight": "waited_ratio", "littles_law": "waited_ratio",
    "host_lateness_p50": "typical_ms", "host_lateness_p99": "p99_ms",
}  # fmt: skip


def what_it_waited(measured: Measured) -> dict[str, float] | None:
    """What the sender waited for a core behind others: what of its lateness and its stalls was the machine's.

    ``typical_ms``: whenever it wanted a core, as the median request met it; ``p99_ms``: the longest wait of one thread
    that 1% of the requests met; ``longest_ms`` of all; ``stalled_ratio``: the share of the window in waits of 5 ms and
    more; ``waited_ratio``: of 1 ms and more. None where nobody recorded it.
    """
    from inferbench_tasks.metrics.waiting import sender_waits  # here: every plan reads this module

    waits = sender_waits(measured.recording, measured.window)
    if waits is None:
        return None
    sent_ns = measured.window.intended_ns[measured.window.measured]
    return {
        "typical_ms": waits.typical_s(sent_ns) * 1e3,
        "p99_ms": waits.longest.met_s(sent_ns, (0.01,))[0] * 1e3,
        "longest_ms": float(waits.longest.wait_s.max(initial=0.0)) * 1e3,
        "stalled_ratio": waits.held_ratio(SUMMED_STALL_NS / 1e9),
        "waited_ratio": waits.held_ratio(MIN_STALL_NS / 1e9),
    }


def machines_part(reasons: Sequence[Reason], ledger: Mapping[str, Any]) -> list[Reason]:
    """The certificate's reasons as the machine's, if each would not stand without what the sender waited for a core.

    As they are if one of them would: then the client was wrong by itself, whatever else happened.
    """
    waited = ledger.get("sender")
    if not waited or ledger.get("mode") == "note":
        return list(reasons)
    for reason in reasons:
        part = _SENDERS_TIME.get(reason.check or "")
        if part is None or reason.figure is None or reason.bound is None:
            return list(reasons)
        if reason.figure - waited[part] > reason.bound:
            return list(reasons)
    return [
        Reason(
            check="sender_wait", figure=reason.figure, bound=reason.bound,
            text=f"the sender waited for a core behind other processes: {reason.text}",
        ).within(INTERFERENCE, INTERFERENCE)
        for reason in reasons
    ]  # fmt: skip
