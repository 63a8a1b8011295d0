"""The waiting jobs of a late-binding policy: its lanes (see ``lanes.py``), and what tenants hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappush
from typing import Any

from inferbench_tasks.scheduling.deadlines import DeadlineBook
from inferbench_tasks.scheduling.lanes import Bucket, Entry, Key, Lane, Tenant, order_keys, rank
from inferbench_tasks.scheduling.model import Params, to_us


class LateQueue:
    """All waiting jobs of a late-binding policy, by lane."""

    def __init__(self, params: Params) -> None:
        self.params = params
        self.lanes: dict[tuple[frozenset[str], int, frozenset[str]], Lane] = {}
        self.live = 0
        self.priorities: dict[int, int] = {}
        """Priority -> number of waiting jobs."""
        self.book = DeadlineBook()
        self.ageing_milli = round(1000 * params.ageing_ratio)
        self.clip_floor_us = 0
        self._orders = 2 if params.order == "aged" else 1

    def add(self, entry: Entry) -> None:
        """A new or returned job; its tenant is set."""
        spec = entry.spec
        where = (spec.device_types, spec.n_devices, spec.avoid)
        lane = self.lanes.get(where)
        if lane is None:
            lane = self.lanes[where] = Lane(*where, self._orders)
        tenant = entry.tenant
        bucket = tenant.buckets.get(lane)
        if bucket is None:
            bucket = tenant.buckets[lane] = Bucket(self._orders)
            lane.buckets += 1
        entry.lane, entry.bucket = lane, bucket
        entry.keys = order_keys(entry, self.params, self.ageing_milli, self.clip_floor_us)
        if spec.deadline_s is not None and self.params.deadlines:
            entry.deadline_key = (to_us(spec.deadline_s), entry.est_us, spec.job_id, entry)
        self.put_back(entry, 0)

    def raise_floor(self, clip_us: int) -> None:
        """Jobs that come from now on and are short for this clip need no second key."""
        self.clip_floor_us = max(self.clip_floor_us, clip_us // 2)

    def lower_floor(self, clip_us: int, entries: Iterable[Entry]) -> None:
        """Before a decision with this clip: every waiting job that it shortens has its second key."""
        if clip_us >= self.clip_floor_us:
            return
        self.clip_floor_us = clip_us // 2
        for entry in entries:
            if entry.waiting and len(entry.keys) == 1 and entry.est_us > self.clip_floor_us:
                key = order_keys(entry, self.params, self.ageing_milli)[1]
                entry.keys = (entry.keys[0], key)
                heap = entry.bucket.heaps[1]
                heappush(heap, key)
                if heap[0] is key:
                    entry.lane.offer(1, key)

    def put_back(self, entry: Entry, held: int) -> None:
        """The job waits (again); its tenant holds ``held`` devices fewer."""
        lane, bucket = entry.lane, entry.bucket
        entry.waiting = True
        self.live += 1
        lane.live += 1
        bucket.live += 1
        self.priorities[entry.spec.priority] = self.priorities.get(entry.spec.priority, 0) + 1
        for order, key in enumerate(entry.keys):
            heap = bucket.heaps[order]
            heappush(heap, key)
            if heap[0] is key:
                lane.offer(order, key)
        if lane.shortest is not None:
            heappush(lane.shortest, (entry.est_us, entry.spec.job_id, entry))
        if entry.deadline_key is not None:
            heappush(lane.deadlines, entry.deadline_key)
            self.book.add(entry)
        if held:
            self.hold(entry.tenant, -held)

    def take(self, entry: Entry, held: int) -> None:
        """The job waits no more; its tenant holds ``held`` devices more."""
        lane, bucket = entry.lane, entry.bucket
        entry.waiting = False
        priority = entry.spec.priority
        self.priorities[priority] -= 1
        if not self.priorities[priority]:
            del self.priorities[priority]
        self.live -= 1
        lane.live -= 1
        bucket.live -= 1
        if entry.deadline_key is not None:
            self.book.remove(entry)
        for order in range(self._orders):
            if (top := bucket.top(order)) is not None:
                lane.offer(order, top)
        if held:
            self.hold(entry.tenant, held)

    def hold(self, tenant: Tenant, devices: int) -> None:
        """A tenant holds more or fewer devices: its best jobs move to another group."""
        tenant.held += devices
        held = 1000 * tenant.held / tenant.weight_milli if tenant.weight_milli else 0.0
        if held == tenant.held_per_weight:
            return
        tenant.held_per_weight = held
        for lane, bucket in tenant.buckets.items():
            for order in range(self._orders):
                if (top := bucket.top(order)) is not None:
                    lane.offer(order, top)

    def tidy(self, entry: Entry) -> None:
        """After a job has really left: drop its bucket and lane if they are empty."""
        lane, bucket = entry.lane, entry.bucket
        bucket.compact()
        lane.compact()
        if not bucket.live and entry.tenant.buckets.pop(lane, None) is not None:
            lane.buckets -= 1
        if not lane.live:
            self.lanes.pop((lane.types, lane.n_devices, lane.avoid), None)

    def best(
        self, lane: Lane, classes: dict[float, float], tenant_class: Callable[[float], float], clip_us: int
    ) -> tuple[tuple[Any, ...], Entry] | None:
        """(rank, job) of the first job of a lane in the policy's order. ``classes`` caches ``tenant_class``."""
        best: tuple[Any, ...] | None = None
        first: Key | None = None
        for order, groups in enumerate(lane.groups):
            empty: list[float] = []
            for held, group in groups.items():
                key = group.heap[0] if group.heap else None
                # The usual case without a call: what stands first is not stale.
                if key is None or not (
                    key[4].waiting and key[4].keys[-order] is key and key[4].tenant.held_per_weight == held
                ):
                    key = group.top(held)
                    if key is None:
                        empty.append(held)
                        continue
                claim = classes.get(held)
                if claim is None:
                    claim = classes[held] = tenant_class(held)
                if best is None or (key[0], claim) <= best[:2]:
                    claim_rank = rank(key, claim, self.params.order, clip_us, self.ageing_milli)
                    if best is None or claim_rank < best:
                        best, first = claim_rank, key
            for held in empty:
                del groups[held]
        return None if best is None or first is None else (best, first[4])
