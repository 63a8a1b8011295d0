"""Waits of an open loop for connections of which the user asked for so few: a queue of the load, no client's delay.

``connections: 1`` of HTTP is one user who sends the next request when the last one is answered, to a schedule that
goes on meanwhile. What a request waits is that of a queue with so many servers, in the order of the intended moments.
Who waits behind another waits for the client's delays at that one, too, and in a busy queue they add up to far more
than each is. So the queue is played through without the client: each request holds a connection for as long as from
its send to the earliest moment at which its answer may have come (``client_share.Stalls``). That wait counts in every
time from the intended moment; what a request waited beyond it is the client's. What a user's program does to a request
before it leaves holds no connection: who waits for one has it done meanwhile. What it does to the answer does hold one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.client_share import Stalls
from inferbench_tasks.loadgen.evidence import ShardUsage
from inferbench_tasks.loadgen.window import Window

_NEVER = np.iinfo(np.int64).max


def with_waits(window: Window, connections: Sequence[int] | None, shards: Sequence[ShardUsage]) -> Window:
    """The same with ``connection_wait_ns`` and ``connection_busy_ns``.

    ``connections``: of each sender, None where nobody asked for a number. ``shards``: when each was held up.
    """
    if connections is None:
        return window
    prepared_ns = window.client_spans["preprocess"].clip(0) if window.client_spans else np.int64(0)
    all_ready_ns, all_sent_ns = window.intended_ns + prepared_ns, window.sent_ns + prepared_ns
    earliest_ns = Stalls(window.shard, shards).earliest_ns(all_sent_ns, window.done_ns)
    held_ns = np.where(window.done_ns >= 0, (earliest_ns - all_sent_ns).clip(0), _NEVER)
    wait_ns, busy_ns = (np.zeros(len(window.intended_ns), np.int64) for _ in range(2))
    for shard, count in enumerate(connections):
        mine = np.flatnonzero((window.shard == shard) & (window.sent_ns >= 0))
        # Of those that were due at one moment, who was sent first was first in the queue.
        mine = mine[np.lexsort((window.sent_ns[mine], window.intended_ns[mine]))]
        ready_ns, sent_ns, done_ns = (values[mine] for values in (all_ready_ns, all_sent_ns, window.done_ns))
        starts_ns = played(ready_ns, held_ns[mine], count)
        free_ns = free_from(np.where(done_ns >= 0, done_ns, _NEVER), count)
        # Not beyond the send: an order that is not that of the schedule is no reason to wait.
        for into, moment_ns in ((wait_ns, starts_ns), (busy_ns, free_ns)):
            into[mine] = np.clip(np.minimum(moment_ns, sent_ns) - ready_ns, 0, None)
    return replace(window, connection_wait_ns=wait_ns, connection_busy_ns=busy_ns)


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
        f"requests wait for one of {connections} {some} that were asked for, with any client, half of them more than "
        f"{waits['connection_wait_p50_ms']:.1f} ms, 1% more than {waits['connection_wait_p99_ms']:.1f} ms: that is in "
        "the times from the intended moment, and in none from the send"
    )


def played(ready_ns: NDArray[np.int64], held_ns: NDArray[np.int64], connections: int) -> NDArray[np.int64]:
    """When each request of a queue gets one of so many connections, first come, first served, ns.

    ``ready_ns``: from when each wants one; ``held_ns``: how long it keeps it.
    """
    free_ns = [0] * connections
    starts_ns = np.empty(len(ready_ns), np.int64)
    for number, (ready, held) in enumerate(zip(ready_ns.tolist(), held_ns.tolist(), strict=True)):
        starts_ns[number] = start = max(ready, free_ns[0])
        heapq.heapreplace(free_ns, min(start + held, _NEVER))
    return starts_ns


def free_from(done_ns: NDArray[np.int64], connections: int) -> NDArray[np.int64]:
    """From when each request finds one of so many connections free, by the ends of those before it; 0: at once.

    Request k (from 0) has one when fewer than C of those before it are unanswered: the C-th largest of their ends.
    """
    free_ns = np.zeros(len(done_ns), np.int64)
    largest = done_ns[:connections].tolist()
    heapq.heapify(largest)
    for number, done in enumerate(done_ns[connections:].tolist(), len(largest)):
        free_ns[number] = largest[0]
        heapq.heappushpop(largest, done)
    return free_ns
