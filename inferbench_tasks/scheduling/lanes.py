"""The waiting jobs of a late-binding policy, so that the best one for a free device is found without looking at all.

A *lane* holds the jobs that the same devices suit: one (device types, number of devices, avoided devices). In a lane
each tenant has a *bucket*: a heap of its jobs per static order. The buckets' best jobs stand in a heap per *group*: the
tenants that hold equally many devices, which therefore have the same claim. A decision looks at one job per group.

The aged order is ``min(est, clip) + ageing * submit``, where the clip moves with the mean of all estimates. Because
``min_j min(a_j, b_j) = min(min_j a_j, min_j b_j)``, two static heaps give its minimum for whatever clip: one by
``est + ageing * submit``, one by ``submit``. Integer keys keep this exact. The second holds only jobs longer than
``clip_floor_us``, which the clip may shorten; the floor follows the clip, well below it.

Heaps forget lazily: an entry is stale when its job no longer waits, its key was replaced, or its tenant moved on.
(``keys[-order]``: order 0 is the first key, order 1 the last.)
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from heapq import heapify, heappop, heappush

from inferbench_tasks.scheduling.entry import Entry, Key

#: A heap is rebuilt when it holds more than twice its live entries and this many.
SLACK = 64


class Bucket:
    """One tenant's jobs in one lane: a heap per order."""

    __slots__ = ("heaps", "live")

    def __init__(self, orders: int) -> None:
        self.heaps: tuple[list[Key], ...] = tuple([] for _ in range(orders))
        self.live = 0

    def top(self, order: int) -> Key | None:
        heap = self.heaps[order]
        while heap:
            key: Key = heap[0]
            entry = key[4]
            if entry.waiting and entry.keys[-order] is key:
                return heap[0]
            heappop(heap)
        return None

    def compact(self) -> None:
        for order, heap in enumerate(self.heaps):
            if len(heap) > 2 * self.live + SLACK:
                heap[:] = sorted({key for key in heap if key[4].waiting and key[4].keys[-order] is key})


class Group:
    """The best jobs of the tenants that hold equally many devices, in one lane and one order."""

    __slots__ = ("heap", "members", "order")

    def __init__(self, order: int) -> None:
        self.order = order
        self.heap: list[Key] = []
        self.members: dict[Key, Key] = {}

    def push(self, key: Key) -> None:
        # A returned job has a new key that equals its old one, so identity decides.
        if self.members.get(key) is not key:
            self.members[key] = key
            heappush(self.heap, key)

    def top(self, held_per_weight: float) -> Key | None:
        heap = self.heap
        while heap:
            key: Key = heap[0]
            entry = key[4]
            if (
                entry.waiting
                and entry.keys[-self.order] is key
                and entry.tenant.held_per_weight == held_per_weight
            ):
                return heap[0]
            heappop(heap)
            if self.members.get(key) is key:
                del self.members[key]
        return None

    def compact(self, held_per_weight: float, limit: int) -> None:
        """Keep only what is the best of its bucket, once there is much else."""
        if len(self.heap) > limit:
            order = self.order
            tenants = {key[4].tenant: key[4].bucket for key in self.heap if key[4].waiting}
            tops = [
                bucket.top(order) for t, bucket in tenants.items() if t.held_per_weight == held_per_weight
            ]
            self.heap = sorted(top for top in tops if top is not None)
            self.members = {key: key for key in self.heap}


class Lane:
    """The waiting jobs that the same devices suit."""

    __slots__ = ("avoid", "buckets", "deadlines", "groups", "live", "n_devices", "shortest", "types")

    def __init__(self, types: frozenset[str], n_devices: int, avoid: frozenset[str], orders: int) -> None:
        self.types = types
        self.n_devices = n_devices
        self.avoid = avoid
        self.live = 0
        self.buckets = 0
        self.groups: tuple[dict[float, Group], ...] = tuple({} for _ in range(orders))
        self.deadlines: list[Key] = []
        self.shortest: list[Key] | None = None
        """By length alone, for backfilling; kept from when it is first asked for."""

    def offer(self, order: int, key: Key) -> None:
        """Make a bucket's best job known to the group of its tenant."""
        held = key[4].tenant.held_per_weight
        group = self.groups[order].get(held)
        if group is None:
            group = self.groups[order][held] = Group(order)
        group.push(key)
        if len(group.heap) > SLACK:
            group.compact(held, 4 * self.buckets + SLACK)

    def first_deadline(self) -> Key | None:
        heap = self.deadlines
        while heap and not (heap[0][3].waiting and heap[0][3].deadline_key is heap[0]):
            heappop(heap)
        return heap[0] if heap else None

    def shortest_job(
        self, entries: Iterable[Entry], leave: Container[Entry]
    ) -> tuple[int, str, Entry] | None:
        """(estimate, id, job) of the shortest waiting job not in ``leave``; ``entries``: all jobs there are."""
        if self.shortest is None:
            self.shortest = [(e.est_us, e.spec.job_id, e) for e in entries if e.waiting and e.lane is self]
            heapify(self.shortest)
        heap, left = self.shortest, []
        found = None
        while heap and found is None:
            est_us, job_id, entry = heap[0]
            if not entry.waiting or entry.est_us != est_us or entry.lane is not self:
                heappop(heap)
            elif entry in leave:
                left.append(heappop(heap))
            else:
                found = (est_us, job_id, entry)
        for item in left:
            heappush(heap, item)
        return found

    def compact(self) -> None:
        """Forget the stale entries, once they are many."""
        if len(self.deadlines) > 2 * self.live + SLACK:
            self.deadlines = sorted({k for k in self.deadlines if k[3].waiting and k[3].deadline_key is k})
        if self.shortest is not None and len(self.shortest) > 2 * self.live + SLACK:
            self.shortest = None
