"""One decision of a late-binding policy. Nothing that it tries out stays in the index.

1. Free devices go to the waiting jobs in the policy's order. A job that does not fit is skipped, and with it all
   others of its lane; if it needs several devices it gets a reservation (one per set of device types).
2. Devices held for a reservation go to the shortest jobs that are expected to end before it starts.
3. If the first jobs in the order still wait, a preemptible job of lower priority makes room for one of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.scheduling.deadlines import SLOT_US
from inferbench_tasks.scheduling.decisions import Decision, Place, Reserve
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.lanes import Entry, Lane
from inferbench_tasks.scheduling.late_queue import LateQueue
from inferbench_tasks.scheduling.nodes import Node
from inferbench_tasks.scheduling.order import Rank, Ranking
from inferbench_tasks.scheduling.pool import Pool
from inferbench_tasks.scheduling.preemption import preempt, victims
from inferbench_tasks.scheduling.reservation import Shadow, Used, shadow_on


class Round:
    """The state of one call of ``decide``: what is still free, and what was decided so far."""

    def __init__(self, index: Index, queue: LateQueue, now: float) -> None:
        self.index = index
        self.queue = queue
        self.now = now
        self.params = index.params
        self.out: list[Decision] = []
        self.taken: list[Entry] = []
        self.held: dict[str, tuple[Shadow, Entry]] = {}
        self.used: dict[str, list[Used]] = {}
        self._pools: dict[str, Pool] = {}
        self._reserved_types: set[frozenset[str]] = set()
        self._ranking = ranking = Ranking(index, queue, now)
        if self.params.order == "aged":
            queue.lower_floor(ranking.clip_us, index.jobs.values())
        self._free = index.nodes.free
        self._victims = victims(index, queue, ranking.now_us, now)
        self._firsts: dict[Lane, tuple[Rank, Entry]] = {}
        self._classes: dict[float, float] = {}

    def run(self) -> list[Decision]:
        try:
            if self.index.nodes.usable:
                self._fill()
                self._backfill()
                if self._victims:
                    lanes = [lane for lane in self.queue.lanes.values() if lane.live]
                    firsts = [first for lane in lanes if (first := self.first(lane))]
                    holders = {node_id: entry for node_id, (_, entry) in self.held.items()}
                    self.out += preempt(self.index, self._victims, firsts, self._free_of, holders)
        finally:
            for entry in reversed(self.taken):
                self.queue.put_back(entry, entry.spec.n_devices)
        return self.out

    def _free_of(self, node: Node) -> Sequence[int]:
        """The devices of a node on which nothing was placed yet."""
        pool = self.pool(node.type_name)
        return pool.free.get(node.node_id, ()) if pool else ()

    def pool(self, type_name: str) -> Pool | None:
        """The free devices of a type, None if no node of it ever came up."""
        pool = self._pools.get(type_name)
        if pool is None and (kind := self.index.nodes.types.get(type_name)):
            pool = self._pools[type_name] = Pool(kind)
        return pool

    def first(self, lane: Lane) -> tuple[Rank, Entry] | None:
        """The first waiting job of a lane, promoted or not."""
        candidate = self._firsts.get(lane)
        if candidate is None and lane.live:
            candidate = self._promoted(lane)
            if candidate is None:
                ranking = self._ranking
                best = self.queue.best(lane, self._classes, ranking.tenant_class, ranking.clip_us)
                candidate = None if best is None else ((1, *best[0]), best[1])
            if candidate is not None:
                self._firsts[lane] = candidate
        return candidate

    def _promoted(self, lane: Lane) -> tuple[Rank, Entry] | None:
        due = lane.first_deadline() if lane.deadlines else None
        if due is None:
            return None
        slot = self._ranking.horizon(lane.types)
        return None if slot is None or due[0] // SLOT_US > slot else ((0, *due[:3]), due[3])

    def _fill(self) -> None:
        types = self.index.nodes.types
        lanes = self.queue.lanes.values()
        free_types = {name for name, kind in types.items() if kind.with_free}
        open_lanes = [lane for lane in lanes if not free_types.isdisjoint(lane.types)]
        while self._free and open_lanes:
            best: tuple[Rank, Entry] | None = None
            for lane in open_lanes:
                candidate = self.first(lane)
                if candidate is not None and (best is None or candidate[0] < best[0]):
                    best = candidate
            if best is None:
                return
            rank, entry = best
            lane = entry.lane
            where = self._where(lane)
            if where is not None:
                promoted = "promoted: its deadline is near" if rank[0] == 0 else ""
                self._place(entry, *where, promoted or f"first in order ({self.params.order})")
                if not where[1].devices:
                    open_lanes = [other for other in open_lanes if self._may_open(other)]
            else:
                open_lanes.remove(lane)
                if lane.n_devices > 1 and self.params.reserve:
                    self._reserve(entry, lane)

    def _may_open(self, lane: Lane) -> bool:
        return any((pool := self.pool(t)) is not None and pool.devices for t in lane.types)

    def _where(self, lane: Lane) -> tuple[str, Pool] | None:
        """The node for a job of this lane: of the type with the largest share open, best fit."""
        pools = [(-p.share_permille, t, p) for t in lane.types if (p := self.pool(t)) and p.devices]
        for _, _, pool in sorted(pools, key=lambda item: item[:2]):
            node_id = pool.find(lane.n_devices, lane.avoid)
            if node_id is not None:
                return node_id, pool
        return None

    def _place(self, entry: Entry, node_id: str, pool: Pool, reason: str, *, held: bool = False) -> None:
        spec = entry.spec
        devices = pool.use(node_id, spec.n_devices, spec.avoid, held=held)
        end_s = self.now + spec.est_s
        self.used.setdefault(node_id, []).append((devices, end_s))
        self.out.append(Place(spec.job_id, node_id, devices, end_s, reason))
        self._free -= spec.n_devices
        if not self._free and not self._victims:
            return  # Nothing is decided after this one, so its job need not be taken out.
        self.queue.take(entry, spec.n_devices)
        self.taken.append(entry)
        # What a placement changes: the claims of its tenant, and the work that is due.
        for changed in list(self._firsts) if entry.deadline_key else entry.tenant.buckets:
            self._firsts.pop(changed, None)

    def _reserve(self, entry: Entry, lane: Lane) -> None:
        """Keep a node for the first job that does not fit, if anything is free that could be kept."""
        if lane.types in self._reserved_types:
            return
        pools = [(name, pool) for name in lane.types if (pool := self.pool(name))]
        if not any(free and n not in self.held for _, pool in pools for n, free in pool.free.items()):
            return
        shadows: list[tuple[float, str, Shadow]] = []
        for type_name, pool in pools:
            for node_id, node in self.index.nodes.types[type_name].wide.items():
                if node_id in self.held:
                    continue
                allocations = self.used.get(node_id, ())
                shadow = shadow_on(node, pool.free.get(node_id, ()), allocations, entry.spec, self.now)
                if shadow is not None:
                    shadows.append((shadow.start_s, node_id, shadow))
        if not shadows:
            return
        start_s, node_id, shadow = min(shadows, key=lambda item: item[:2])
        self._reserved_types.add(lane.types)
        self.held[node_id] = (shadow, entry)
        pool = self._pools[self.index.nodes.by_id[node_id].type_name]
        if node_id in pool.open:
            pool.set_open(node_id, min(pool.open[node_id], shadow.extra))
        n, reason = entry.spec.n_devices, f"needs {entry.spec.n_devices} devices of one node"
        self.out.append(Reserve(entry.spec.job_id, node_id, n, start_s, reason))

    def _backfill(self) -> None:
        reserved = {entry for _, entry in self.held.values()}
        for node_id, (shadow, _) in self.held.items():
            pool = self._pools[self.index.nodes.by_id[node_id].type_name]
            while pool.free.get(node_id):
                entry = self._shortest(node_id, pool, shadow.start_s, reserved)
                if entry is None:
                    break
                self._place(entry, node_id, pool, "ends before the reservation starts", held=True)

    def _shortest(self, node_id: str, pool: Pool, until_s: float, reserved: set[Entry]) -> Entry | None:
        """The shortest job that fits on what is free of a node and is expected to end in time."""
        type_name = self.index.nodes.by_id[node_id].type_name
        best: tuple[int, str, Entry] | None = None
        for lane in self.queue.lanes.values():
            if not lane.live or type_name not in lane.types:
                continue
            if not pool.fits(node_id, lane.n_devices, lane.avoid):
                continue
            candidate = lane.shortest_job(self.index.jobs.values(), reserved)
            if candidate is not None and (best is None or candidate[:2] < best[:2]):
                best = candidate
        return best[2] if best and self.now + best[2].spec.est_s <= until_s else None
