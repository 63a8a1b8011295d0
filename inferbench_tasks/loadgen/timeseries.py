"""The course of a load, second by second."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.loadgen.statistics import FLOORS, hidden_by_failures
from inferbench_tasks.loadgen.window import NS_PER_S, Window

#: A load lasts a day at most; records further apart than two of them come from something else.
_MAX_SECONDS = 2 * 86_400


def per_second(window: Window) -> dict[str, list[Any]]:
    """Columns of equal length, one entry per second of the whole load, warm-up and cool-down included.

    ``t_s``: the start of the second from the start of the window, negative in the warm-up. ``requests``
    counts by the intended moment; ``ok`` and ``errors`` by the moment of the answer (errors that never
    got one: by the intended moment). ``p50_ms``, ``p99_ms`` and ``max_ms`` are latencies from the intended
    moment of the good answers to the requests MEANT for that second; percentiles are None below their
    floor (11 and 662 answers), and where requests meant for that second failed that may belong among the slowest.
    ``in_flight``: at the end of the second.
    """
    names = ("t_s", "requests", "ok", "errors", "p50_ms", "p99_ms", "max_ms", "in_flight")
    if not len(window.intended_ns):
        return {name: [] for name in names}
    ended = window.done_ns >= 0
    first = (int(window.intended_ns[0]) - window.start_ns) // NS_PER_S
    last_ns = max(int(window.intended_ns[-1]), int(window.done_ns.max()), window.end_ns - 1)
    seconds = min((last_ns - window.start_ns) // NS_PER_S - first + 1, _MAX_SECONDS)
    zero = window.start_ns + first * NS_PER_S

    def counted(times: Any) -> Any:
        return np.bincount(np.minimum((times - zero) // NS_PER_S, seconds - 1), minlength=seconds)

    answered_at = np.where(ended, window.done_ns, window.intended_ns)
    good = window.ok
    second = np.minimum((window.intended_ns[good] - zero) // NS_PER_S, seconds - 1).astype(np.int32)
    latency_ms = (window.done_ns - window.intended_ns)[good] / 1e6
    # intended_ns ascends, so each second's answers are one slice.
    edges = np.searchsorted(second, np.arange(seconds + 1))
    requests = counted(window.intended_ns)
    p50: list[float | None] = [None] * seconds
    p99: list[float | None] = [None] * seconds
    worst: list[float | None] = [None] * seconds
    for index in np.flatnonzero(np.diff(edges)):
        values = np.sort(latency_ms[edges[index] : edges[index + 1]])
        n = len(values)
        worst[index] = float(values[-1])
        failed_ratio = 1 - n / int(requests[index])
        if n >= FLOORS[0.5] and not hidden_by_failures(0.5, failed_ratio):
            p50[index] = float(values[(n + 1) // 2 - 1])
        if n >= FLOORS[0.99] and not hidden_by_failures(0.99, failed_ratio):
            p99[index] = float(values[-(-99 * n // 100) - 1])
    del second, latency_ms  # millions of values each
    ends = zero + NS_PER_S * np.arange(1, seconds + 1) - 1
    return {
        "t_s": [int(first) + index for index in range(seconds)],
        "requests": requests.tolist(),
        "ok": counted(answered_at[good]).tolist(),
        "errors": counted(answered_at[~good]).tolist(),
        "p50_ms": p50,
        "p99_ms": p99,
        "max_ms": worst,
        "in_flight": window.in_flight_at(ends).tolist(),
    }
