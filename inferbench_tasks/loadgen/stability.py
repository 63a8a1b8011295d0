"""Whether the latencies of a load depend on how long it lasted, so that no percentile of them is the server's.

A server that does not keep up has a backlog that grows for as long as the load lasts, as have connections that are too
few for it, and a server that warms up, drifts or switches between levels was measured in a part of what it does. The
throughput stands; the latencies are withheld.
"""

from __future__ import annotations

import numpy as np

from inferbench_tasks.loadgen.level_changes import straight_line
from inferbench_tasks.loadgen.statistics import NAMES
from inferbench_tasks.loadgen.window import Window

#: The backlog counts as growing from this factor (and by this number) between the window's first and last quarter.
_BACKLOG_FACTOR, _BACKLOG_REQUESTS = 2.0, 8.0
#: By fewer requests where the server answers few: so many, if it takes this share of the window to answer them and the
#: number in flight rises throughout (by so many standard errors of its slope).
_FEW_REQUESTS, _FEW_WINDOW_RATIO, _FEW_Z = 3.0, 0.1, 3.0
_LOOKS = 64
#: What is withheld: these figures of these series.
_SERIES = ("e2e_latency_ms", "send_latency_ms", "first_byte_latency_ms")
_FIGURES = ("mean", *NAMES.values())
#: What a submission says that wants more requests than a server can answer (``load.expect``).
OVERLOAD = "overload"
#: What a load is called of which too few answers say whether it was steady.
NOT_KNOWN = "not known to be steady"


def growing_backlog(window: Window) -> str | None:
    """How the backlog grew, in words; None if it did not."""
    quarter = (window.end_ns - window.start_ns) // 4
    times = np.linspace(0, quarter, 64).astype(np.int64)
    first = float(window.in_flight_at(window.start_ns + times).mean())
    last = float(window.in_flight_at(window.end_ns - quarter + times).mean())
    if last <= first * _BACKLOG_FACTOR or not (
        last > first + _BACKLOG_REQUESTS or _slow_server_falls_behind(window, last - first)
    ):
        return None
    waited = float(window.waiting_at(window.end_ns - quarter + times).mean())
    waited -= float(window.waiting_at(window.start_ns + times).mean())
    # Who holds a connection for long, the server or what the client does with its answers, no queue before it can tell.
    why = (
        "the server did not keep up, and its latency depends"
        if waited <= (last - first) / 2
        else "they waited for one of the few connections that were asked for, which carry less than the load wants, "
        "and the latency depends"
    )
    return f"the backlog grew from {first:.0f} to {last:.0f} requests in flight: {why} on how long the load lasts"


def _slow_server_falls_behind(window: Window, growth: float) -> bool:
    """Whether so few more in flight are a backlog: to a server of two requests/s they are seconds."""
    rate_rps = int(window.completed.sum()) / window.duration_s
    if growth < _FEW_REQUESTS or growth < _FEW_WINDOW_RATIO * window.duration_s * rate_rps:
        return False
    times = np.linspace(window.start_ns, window.end_ns, _LOOKS).astype(np.int64)
    slope, error, _ = straight_line(window.in_flight_at(times).astype(np.float64))
    return slope > _FEW_Z * error


def withheld_for(reason: str) -> dict[str, dict[str, str]]:
    """Series -> figure -> why it is withheld, of every latency; what the user can do is said."""
    text = reason
    if not reason.startswith(NOT_KNOWN):
        text = f"{reason}; where that is meant: load.expect: {OVERLOAD}"
    return {series: dict.fromkeys(_FIGURES, text) for series in _SERIES}
