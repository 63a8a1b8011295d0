"""Checks of a load with a fixed number of users: all of them were busy, and none was there twice."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.evidence import Check, ClosedPlan
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.window import NS_PER_S, Window

#: Beyond that share, requests cut by the window's ends excuse nothing.
_MOST_BY_CHANCE = 0.1


def closed_loop_checks(
    window: Window, plan: ClosedPlan, limits: Thresholds
) -> tuple[list[Check], dict[str, Any]]:
    """The checks and what they measured.

    Little's law for a closed system of N users (the response-time law): N = X (R + Z), with the rate of
    completions X, the mean time from send to end R and the think time Z. What is missing is time that a
    user spent neither in flight nor thinking: the client's own pauses.
    """
    ended = (window.done_ns > window.start_ns) & (window.done_ns <= window.end_ns) & (window.sent_ns >= 0)
    count = int(ended.sum())
    if count == 0:
        none = Check.at_most(
            "completions", 1, 0, "ratio",
            "no answer arrived while requests were being sent: there is no throughput; measure longer",
        )  # fmt: skip
        return [none] if len(window.sent_ns) else [], {"in_flight_max": None, "littles_law_error_ratio": None}
    users = plan.concurrency
    rate = count / window.duration_s
    latency_s = float((window.done_ns - window.sent_ns)[ended].mean()) / NS_PER_S
    pause_ns = plan.pause_ns
    think_s = plan.think_time_ns / NS_PER_S if pause_ns is None else float(pause_ns[ended].mean()) / NS_PER_S
    busy = window.in_flight_mean() + (
        rate * think_s if pause_ns is None else _thinking_mean(window, pause_ns)
    )
    by_law = rate * (latency_s + think_s)
    in_flight_error = abs(users - busy) / users
    law_error = abs(users - by_law) / users
    # A completion is counted whole though its request began before the window; the others that end after
    # it make up for that but for chance, which is of the order of one request per user. Where that is much, the
    # throughput may be as far off.
    edge = min(users / count, _MOST_BY_CHANCE)
    events = np.unique(window.sent_ns[(window.sent_ns >= window.start_ns) & (window.sent_ns < window.end_ns)])
    most = int(window.in_flight_at(events).max()) if len(events) else 0
    checks = [
        Check.at_most(
            "in_flight", in_flight_error, limits.in_flight_error_ratio, "ratio",
            f"on average {busy:.2f} of {users} users were in flight or thinking: {in_flight_error:.1%} off "
            f"(at most {limits.in_flight_error_ratio:.1%})",
        ),
        Check.at_most(
            "in_flight_max", most, users, "requests", f"{most} requests were in flight at once, {users} were asked for"
        ),
        Check.at_most(
            "littles_law", law_error, limits.littles_law_error_ratio + edge, "ratio",
            f"by Little's law {by_law:.2f} users were there, {users} were asked for: {law_error:.1%} off "
            f"(at most {limits.littles_law_error_ratio + edge:.1%})",
        ),
    ]  # fmt: skip
    if pause_ns is not None and pause_ns.any():
        # Pauses by chance, some longer than the window: the law holds in the mean only. ``in_flight`` has them exactly.
        checks.pop()
    figures = {
        "in_flight_max": most,
        "in_flight_error_ratio": in_flight_error,
        "littles_law_error_ratio": law_error,
        "completions_rps": rate,
    }
    return checks, figures


def _thinking_mean(window: Window, pause_ns: NDArray[np.int64]) -> float:
    """The mean number of users between an answer and their next request over the window, exact."""
    ended = window.done_ns >= 0
    done_ns = window.done_ns[ended]
    begin = np.clip(done_ns, window.start_ns, window.end_ns)
    end = np.clip(done_ns + pause_ns[ended], window.start_ns, window.end_ns)
    return float((end - begin).sum()) / (window.end_ns - window.start_ns)
