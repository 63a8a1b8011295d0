"""Checks of a load that follows a schedule: nothing missing, nothing moved, sent in time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.evidence import Check, OpenPlan, beside
from inferbench_tasks.loadgen.pacing import ascending, gap_distance
from inferbench_tasks.loadgen.statistics import NAMES, percentiles
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.window import Window, taken


def open_loop_checks(
    window: Window, plan: OpenPlan, p50_ms: float, limits: Thresholds
) -> tuple[list[Check], dict[str, Any]]:
    """The checks and what they measured. ``p50_ms``: from the real send, of the good answers."""
    planned = ascending(plan.intended_ns)
    recorded = taken(window.intended_ns, window.measured)
    missing = abs(len(planned) - len(recorded))
    moved = int(np.count_nonzero(planned != recorded)) if not missing else 0
    checks = [
        Check.at_most(
            "unrecorded", missing, 0, "requests",
            f"{len(planned)} requests were planned and {len(recorded)} recorded: {missing} differ",
        ),
        Check.at_most(
            "schedule_moved", moved, 0, "requests",
            f"{moved} of {len(planned)} requests were recorded with an intended time that was not planned: "
            "the schedule was changed under way",
        ),
    ]  # fmt: skip
    figures: dict[str, Any] = {
        "planned_requests": len(planned),
        "planned_rps": len(planned) / window.duration_s,
    }
    was_sent = window.measured & (window.sent_ns >= 0)
    if not plan.paced or not was_sent.any():
        return checks, figures
    for more, measured in (
        _lateness(window, was_sent, p50_ms, limits),
        _client_share(window, limits),
        _rate(window, was_sent, planned, limits),
        _gaps(window, was_sent, p50_ms, limits),
    ):
        checks += more
        figures |= measured
    return checks, figures


def _lateness(
    window: Window, was_sent: NDArray[np.bool_], p50_ms: float, limits: Thresholds
) -> tuple[list[Check], dict[str, Any]]:
    late_ms = (window.joined_ns - window.intended_ns)[was_sent] / 1e6
    p50, p99 = (float(v) for v in np.quantile(late_ms, [0.5, 0.99], method="inverted_cdf"))
    worst, earliest = float(late_ms.max()), float(late_ms.min())
    p50_limit, p99_limit = limits.most_late_p50_ms(p50_ms), limits.most_late_p99_ms(p50_ms)
    early = int(np.count_nonzero(late_ms < 0))
    half, half_limit = beside(p50, p50_limit, 2)
    last, last_limit = beside(p99, p99_limit, 1)
    checks = [
        Check.at_most(
            "lateness_p50", p50, p50_limit, "ms",
            f"half of the requests left more than {half} ms late (at most {half_limit} ms)",
        ),
        Check.at_most(
            "lateness_p99", p99, p99_limit, "ms",
            f"1% of the requests left more than {last} ms late (at most {last_limit} ms; the median "
            f"latency is {p50_ms:.1f} ms)",
        ),
        Check.at_most(
            "lateness_max", worst, limits.stall_ms, "ms",
            f"the worst request left {worst:.1f} ms late (at most {limits.stall_ms:g} ms): the sender was "
            "stopped, or the machine was too busy",
        ),
        Check.at_most(
            "sent_early", early, 0, "requests",
            f"{early} of {len(late_ms)} requests left before their time, the first by {-earliest:.3f} ms",
        ),
    ]  # fmt: skip
    return checks, {"lateness_p50_ms": p50, "lateness_p99_ms": p99, "lateness_max_ms": worst}


def _client_share(window: Window, limits: Thresholds) -> tuple[list[Check], dict[str, Any]]:
    """How much of each reported percentile is the sender's own lateness; the worst of them is judged.

    What requests wait for connections of which the user asked for so few is in neither side's; what the sender's delays
    at others made of that wait is its own lateness.
    """
    good = window.answered
    e2e = percentiles((window.done_ns - window.intended_ns)[good] / 1e6)
    send = percentiles((window.done_ns - window.left_ns)[good] / 1e6)
    rows = [
        (a - b - max(limits.client_share_ms, limits.client_share_ratio * b), NAMES[q], a, b)
        for q in e2e
        if (a := e2e[q]) is not None and (b := send[q]) is not None
    ]
    if not rows:
        return [], {}
    _, name, from_intended, from_send = max(rows)
    limit = max(limits.client_share_ms, limits.client_share_ratio * from_send)
    share = from_intended - from_send
    of_it, most = beside(share, limit, 1)
    without = "from the send" if window.connection_wait_ns is None else "where the sender takes no time"
    check = Check.at_most(
        "client_share", share, limit, "ms",
        f"the {name} is {from_intended:.1f} ms from the intended moment but {from_send:.1f} ms {without}: "
        f"{of_it} ms of it (at most {most} ms) are the sender's own lateness",
    )  # fmt: skip
    return [check], {f"client_share_{name}_ms": a - b for _, name, a, b in rows}


def _rate(
    window: Window, was_sent: NDArray[np.bool_], planned: NDArray[np.int64], limits: Thresholds
) -> tuple[list[Check], dict[str, Any]]:
    """Requests that left within the window; one at its edge may always miss it."""
    in_time = int(np.count_nonzero(window.joined_ns[was_sent] < window.end_ns))
    error = max(0, abs(len(planned) - in_time) - 1) / max(1, len(planned))
    rate = in_time / window.duration_s
    check = Check.at_most(
        "rate", error, limits.rate_error_ratio, "ratio",
        f"{rate:.2f} requests/s were sent of {len(planned) / window.duration_s:.2f} planned: {error:.2%} off "
        f"(at most {limits.rate_error_ratio:.2%})",
    )  # fmt: skip
    return [check], {"achieved_rps": rate, "rate_error_ratio": error}


def _gaps(
    window: Window, was_sent: NDArray[np.bool_], p50_ms: float, limits: Thresholds
) -> tuple[list[Check], dict[str, Any]]:
    slack_ms = max(limits.gap_slack_ms, limits.gap_slack_latency_ratio * p50_ms)
    # Of the requests that were sent: those that were not are counted as dropped.
    distance = gap_distance(
        taken(window.intended_ns, was_sent), taken(window.joined_ns, was_sent), slack_ms * 1e6
    )
    if distance is None:
        return [], {"gap_distance": None}
    check = Check.at_most(
        "gaps", distance.slack, limits.gap_distance, "ratio",
        f"{distance.slack:.1%} of the gaps between requests differ from the plan by more than {slack_ms:.1f} ms "
        f"(at most {limits.gap_distance:.1%})",
    )  # fmt: skip
    figures = {
        "gap_distance": distance.slack,
        "gap_slack_ms": slack_ms,
        "gap_stride": distance.stride,
        "gap_ks_plain": distance.plain,
    }
    return [check], figures
