"""Bricks on a number of executors: list scheduling (Graham, 1966; the parallel rules that DLBricks leaves to its user).

A brick may start once all that it takes from have ended. Whenever an executor is free it takes, of those that may
start, the one that stands first in the model.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

#: Two, as a runtime with one thread beside its own has.
EXECUTORS = 2


def construct(times: Sequence[float], needs: Sequence[Sequence[int]], executors: int = EXECUTORS) -> float:
    """The moment at which the last brick ends. Between the critical path and the sum; one executor: the sum."""
    waits = [len(set(before)) for before in needs]
    takers: list[list[int]] = [[] for _ in times]
    for index, before in enumerate(needs):
        for other in set(before):
            takers[other].append(index)
    ready = [index for index, count in enumerate(waits) if count == 0]  # in order: a heap
    running: list[tuple[float, int]] = []
    now = 0.0
    while ready or running:
        while ready and len(running) < executors:
            index = heapq.heappop(ready)
            heapq.heappush(running, (now + times[index], index))
        now = running[0][0]
        while running and running[0][0] <= now:
            _, ended = heapq.heappop(running)
            for taker in takers[ended]:
                waits[taker] -= 1
                if waits[taker] == 0:
                    heapq.heappush(ready, taker)
    return now
