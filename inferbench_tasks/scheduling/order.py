"""The policy's order of the waiting jobs at one moment: a decision goes by it, and people are shown it."""

from __future__ import annotations

import heapq
from typing import Any

from inferbench_tasks.scheduling.deadlines import SLOT_US
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.lanes import Entry, rank
from inferbench_tasks.scheduling.late_queue import LateQueue
from inferbench_tasks.scheduling.model import QueuedJob, to_us

#: The rank of a job: promoted jobs first (0, deadline, ...), then the others (1, rank).
Rank = tuple[Any, ...]


class Ranking:
    """The ranks of a late-binding policy's jobs at ``now``, whatever devices they need."""

    def __init__(self, index: Index, queue: LateQueue, now: float) -> None:
        self.index = index
        self.queue = queue
        self.now_us = to_us(now)
        self.clip_us = index.clip_us()
        self._safety_milli = round(1000 * index.params.deadline_safety_ratio)

    def tenant_class(self, held_per_weight: float) -> float:
        """0 below the soft cap; beyond it, the more a tenant holds the later it comes."""
        index = self.index
        cap = 1000 * (index.params.tenant_slack_ratio * index.nodes.usable)
        return 0.0 if held_per_weight * index.active_weight_milli < cap else held_per_weight

    def horizon(self, device_types: frozenset[str]) -> int | None:
        """The last slot whose jobs on these devices are promoted now, None if there is none."""
        types = self.index.nodes.types
        devices = sum(types[t].usable for t in device_types if t in types)
        return self.queue.book.horizon(device_types, self.now_us, devices, self._safety_milli)

    def of(self, entry: Entry) -> Rank:
        """The rank of a waiting job."""
        due = entry.deadline_key
        if due is not None:
            slot = self.horizon(entry.spec.device_types)
            if slot is not None and due[0] // SLOT_US <= slot:
                return (0, *due[:3])
        claim = self.tenant_class(entry.tenant.held_per_weight)
        order = self.index.params.order
        return (1, *rank(entry.keys[0], claim, order, self.clip_us, self.queue.ageing_milli))


def waiting_in_order(index: Index, now: float, most: int | None = None) -> list[QueuedJob]:
    """All jobs without a device, as the policy would take them at ``now``; what only waits for its end comes last.

    ``most``: only so many, the first ones.

    A policy that binds early orders each node's queue alone: its jobs are shown as if they stood in one.
    """
    ranking = Ranking(index, index.queue, now) if isinstance(index.queue, LateQueue) else None

    def place(entry: Entry) -> Rank:
        if not entry.waiting:
            return (2, entry.spec.job_id)
        return ranking.of(entry) if ranking else (1, *entry.keys[0][:4])

    waiting = [entry for entry in index.jobs.values() if entry.run is None]
    first = sorted(waiting, key=place) if most is None else heapq.nsmallest(most, waiting, key=place)
    return [entry.spec for entry in first]
