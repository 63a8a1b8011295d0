"""The records of jobs and tenants behind an ``Index``, and the lanes in which a late-binding policy has its jobs wait.

The lanes are there so that the best job for a free device is found without looking at all.

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
from typing import Any

from inferbench_tasks.scheduling.model import Params, QueuedJob
from inferbench_tasks.scheduling.run import Run

#: A heap is rebuilt when it holds more than twice its live entries and this many.
SLACK = 64
#: An order of waiting jobs: (-priority, three numbers or names that decide, the entry itself). The job id before it is
#: unique among jobs; of one that was taken out and came back the former entry is stale, and may still be there.
Key = tuple[Any, ...]


class Tenant:
    """Who submitted. ``held`` devices per weight is what its soft cap is compared with."""

    __slots__ = ("active", "buckets", "held", "held_per_weight", "name", "weight_milli")

    def __init__(self, name: str, weight_milli: int) -> None:
        self.name = name
        self.weight_milli = weight_milli
        self.held = 0
        self.active = 0
        self.held_per_weight = 0.0
        self.buckets: dict[Lane, Bucket] = {}


class Entry:
    """A job that has not ended. ``run`` is None while it waits."""

    __slots__ = (
        "bound",
        "bucket",
        "deadline_key",
        "est_us",
        "keys",
        "lane",
        "run",
        "spec",
        "submit_us",
        "tenant",
        "waiting",
    )

    lane: Lane
    bucket: Bucket
    tenant: Tenant

    def __lt__(self, other: Entry) -> bool:
        """Of two entries of one job one is stale: either may come first."""
        return False

    def __init__(self, spec: QueuedJob) -> None:
        self.spec = spec
        self.est_us = round(spec.est_s * 1e6)
        self.submit_us = round(spec.submit_s * 1e6)
        self.waiting = False
        self.run: Run | None = None
        self.bound: str | None = None
        self.keys: tuple[Key, ...] = ()
        self.deadline_key: Key | None = None


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
        shortest = None
        while heap and shortest is None:
            est_us, job_id, entry = heap[0]
            if not entry.waiting or entry.est_us != est_us or entry.lane is not self:
                heappop(heap)
            elif entry in leave:
                left.append(heappop(heap))
            else:
                shortest = (est_us, job_id, entry)
        for item in left:
            heappush(heap, item)
        return shortest

    def compact(self) -> None:
        """Forget the stale entries, once they are many."""
        if len(self.deadlines) > 2 * self.live + SLACK:
            self.deadlines = sorted({k for k in self.deadlines if k[3].waiting and k[3].deadline_key is k})
        if self.shortest is not None and len(self.shortest) > 2 * self.live + SLACK:
            self.shortest = None


def order_keys(entry: Entry, params: Params, ageing_milli: int, clip_floor_us: int = 0) -> tuple[Key, ...]:
    """The static keys of an entry; the aged order needs two for a job that the clip may shorten (see ``lanes.py``)."""
    spec = entry.spec
    first = -spec.priority if params.priorities else 0
    est, submit, name = entry.est_us, entry.submit_us, spec.job_id
    if params.order == "aged":
        by_length = (first, 1000 * est + ageing_milli * submit, est, name, entry)
        if est <= clip_floor_us:
            return (by_length,)
        return (by_length, (first, submit, est, name, entry))
    if params.order == "sjf":
        return ((first, est, submit, name, entry),)
    # Equal times: by id, not by length, or a batch would be run shortest first.
    return ((first, submit, 0, name, entry),)


def rank(key: Key, tenant_class: float, order: str, clip_us: int, ageing_milli: int) -> tuple[Any, ...]:
    """Where the job of ``key`` stands among all: (-priority, its tenant's class, the order's two values, id).

    aged: ``min(est, clip) + ageing * submit_time``, then ``est``. Equal to the order of ``decide_reference``.
    """
    if order != "aged":
        return (key[0], tenant_class, key[1], key[2], key[3])
    entry: Entry = key[4]
    est = entry.est_us
    length = est if est < clip_us else clip_us
    return (key[0], tenant_class, 1000 * length + ageing_milli * entry.submit_us, est, key[3])
