"""Percentiles of requests from separate windows of a load, and how sure they are.

A request that was meant to leave shortly before its window ends may be answered after it, when something else disturbs
it. To leave it out because of that would leave out the slow ones, and to count what was disturbed is what the cut is
to avoid. So a percentile is of the requests that had at least as much room, until the end of their window, as the
percentile is long (and its interval reaches): of those that took longer it is known that they lie above it, however
much longer they then took. Room says nothing of a request, so that this choice favours none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.exceedances import spread_of_segments
from inferbench_tasks.loadgen.statistics import (
    FLOORS,
    NAMES,
    failures_reason,
    hidden_by_failures,
    quantile_interval,
)

#: Whether the guard suffices is looked at in steps of this factor, so often at most.
_GUARD_STEP, _MOST_TURNS = 1.3, 40
#: A window begins with a short queue, by the choice of its begin: it must be so many times as long as a percentile.
_LEAST_LENGTHS = 40.0


@dataclass(frozen=True)
class Segmented:
    """Good answers in the order of time: how long each took, its room, its window's number and length; times in ms.

    ``room_ms``: from the intended moment to the end of the window; infinite where nothing ended it.
    """

    latency_ms: NDArray[np.float64]
    room_ms: NDArray[np.float64]
    segment: NDArray[np.int64]
    length_ms: NDArray[np.float64]


@dataclass(frozen=True)
class Percentile:
    """``count``: the requests that it is of; ``interval``: its 95% interval. Of what is None there is a ``reason``."""

    value_ms: float | None
    interval_ms: tuple[float, float] | None
    count: int
    reason: str | None = None


def percentile(requests: Segmented, quantile: float, failed_ratio: float = 0.0) -> Percentile:
    """A percentile of the requests that had room for it; ``failed_ratio``: of the windows' requests."""
    n = len(requests.latency_ms)
    if n < FLOORS[quantile]:
        return Percentile(None, None, n, _too_few(n, quantile))
    # Less than it can't be: who had no answer by the end of the window counts with the room that it had.
    least_ms = np.minimum(requests.latency_ms, requests.room_ms)
    guard_ms = float(np.quantile(least_ms, quantile, method="inverted_cdf"))
    for _ in range(_MOST_TURNS):
        kept = requests.room_ms >= guard_ms
        count = int(np.count_nonzero(kept))
        if count < FLOORS[quantile]:
            text = f"it needs {_ms(guard_ms)} until the next disturbance: {_too_few(count, quantile)}"
            return Percentile(None, None, count, text)
        result, needed_ms = _of(requests.latency_ms[kept], requests.segment[kept], quantile)
        if needed_ms <= guard_ms or requests.room_ms[kept].min() >= needed_ms:
            break
        guard_ms = min(needed_ms, guard_ms * _GUARD_STEP)
    else:
        return Percentile(None, None, count, "the quiet windows are too short for it")
    length_ms = float(requests.length_ms[kept].mean())
    whole = not np.isfinite(requests.room_ms).any() and requests.segment[0] == requests.segment[-1]
    if not whole and result.interval_ms is None:
        return Percentile(None, None, count, result.reason)
    if not whole and length_ms < _LEAST_LENGTHS * (result.value_ms or 0.0):
        text = (
            f"a request's window lasts {_ms(length_ms)} on average, and it is {_ms(result.value_ms or 0.0)} "
            f"(windows must be {_LEAST_LENGTHS:g} times as long)"
        )
        return Percentile(None, None, count, text)
    if hidden_by_failures(quantile, failed_ratio):
        return Percentile(None, None, count, failures_reason(quantile, failed_ratio))
    return result


def distribution(requests: Segmented, failed_ratio: float = 0.0) -> dict[str, Any]:
    """All percentiles by name, with ``ci95``, ``counts``, and ``reasons`` where a value or an interval is None."""
    each = {NAMES[q]: percentile(requests, q, failed_ratio) for q in FLOORS}
    return {
        **{name: one.value_ms for name, one in each.items()},
        "ci95": {name: list(one.interval_ms) if one.interval_ms else None for name, one in each.items()},
        "counts": {name: one.count for name, one in each.items()},
        "reasons": {name: one.reason for name, one in each.items() if one.reason},
    }


def _of(
    latency_ms: NDArray[np.float64], segment: NDArray[np.int64], quantile: float
) -> tuple[Percentile, float]:
    """The percentile of these, and how much room the requests must have had for it."""
    n = len(latency_ms)
    ordered = np.sort(latency_ms)
    value = float(ordered[math.ceil(quantile * n) - 1])
    starts = np.flatnonzero(np.diff(segment, prepend=segment[0] - 1))
    spread = spread_of_segments(latency_ms > value, starts)
    interval = quantile_interval(ordered, quantile, spread)
    reason = None
    if interval is None:
        tail = n / spread.inflation * min(quantile, 1 - quantile)
        reason = (
            spread.reason or f"the slow requests come in clusters: they are worth {tail:.1f} independent ones"
        )
        reason = f"no interval: {reason}"
    return Percentile(value, interval, n, reason), max(value, interval[1] if interval else value)


def _too_few(count: int, quantile: float) -> str:
    return f"{count:,d} requests are too few (at least {FLOORS[quantile]:,d})"


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"
