"""Waits of an open loop for connections of which the user asked for so few: a queue of the load, no client's delay.

``connections: 1`` of HTTP is one user who sends the next request when the last one is answered, to a schedule that
goes on meanwhile. What a request waits is that of a queue with so many servers, in the order of the intended moments:
request k (from 0) of a sender with C connections has one from the moment at which fewer than C of those before it are
unanswered, which is the C-th largest of their ends. It counts in every time from the intended moment. What it waits
beyond that is the client's own, as ever.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.window import Window

_NEVER = np.iinfo(np.int64).max


def with_waits(window: Window, connections: Sequence[int] | None) -> Window:
    """The same with ``connection_wait_ns``; ``connections``: of each sender, None where nobody asked for a number."""
    if connections is None:
        return window
    wait_ns = np.zeros(len(window.intended_ns), np.int64)
    for shard, count in enumerate(connections):
        mine = np.flatnonzero((window.shard == shard) & (window.sent_ns >= 0))
        intended_ns, sent_ns, done_ns = (
            values[mine] for values in (window.intended_ns, window.sent_ns, window.done_ns)
        )
        free_ns = free_from(np.where(done_ns >= 0, done_ns, _NEVER), count)
        # Not beyond the send: an order that is not that of the schedule is no reason to wait.
        wait_ns[mine] = np.clip(np.minimum(free_ns, sent_ns) - intended_ns, 0, None)
    return replace(window, connection_wait_ns=wait_ns)


def waits_ms(window: Window) -> dict[str, float]:
    """Of the window's requests that were sent: p50, p99 and the longest; empty where there is no such wait."""
    if window.connection_wait_ns is None:
        return {}
    waited = window.connection_wait_ns[window.measured & (window.sent_ns >= 0)] / 1e6
    if not len(waited) or not waited.any():
        return {}
    p50, p99 = (float(value) for value in np.quantile(waited, [0.5, 0.99], method="inverted_cdf"))
    names = ("connection_wait_p50_ms", "connection_wait_p99_ms", "connection_wait_max_ms")
    return dict(zip(names, (p50, p99, float(waited.max())), strict=True))


def waits_warning(waits: dict[str, float], connections: int) -> str:
    """What a reader should know: whose the wait is, and in which times it is."""
    some = "connection" if connections == 1 else "connections"
    return (
        f"requests waited for one of {connections} {some} that were asked for, half of them more than "
        f"{waits['connection_wait_p50_ms']:.1f} ms, 1% more than {waits['connection_wait_p99_ms']:.1f} ms: that is in "
        "the times from the intended moment, and in none from the send"
    )


def free_from(done_ns: NDArray[np.int64], connections: int) -> NDArray[np.int64]:
    """From when each request finds one of so many connections free, by the ends of those before it; 0: at once."""
    free_ns = np.zeros(len(done_ns), np.int64)
    largest = done_ns[:connections].tolist()
    heapq.heapify(largest)
    for number, done in enumerate(done_ns[connections:].tolist(), len(largest)):
        free_ns[number] = largest[0]
        heapq.heappushpop(largest, done)
    return free_ns
