"""``decide_reference``: the same decisions as ``decide``, slow and obvious. It says what the policy IS.

Nothing here is shared with the fast way but the data types, the texts of the reasons and the constants.
"""

from __future__ import annotations

from typing import Any

from inferbench_tasks.scheduling.deadlines import SLOT_US
from inferbench_tasks.scheduling.decide import NO_DEVICE_LEFT, limit_text, retries_text
from inferbench_tasks.scheduling.decisions import Decision, Place, Preempt, Reject, Requeue, Reserve
from inferbench_tasks.scheduling.model import (
    NodeView,
    Params,
    QueuedJob,
    RunView,
    Snapshot,
    to_us,
    usable_devices,
)


def decide_reference(snapshot: Snapshot, now: float, params: Params) -> list[Decision]:
    """What to do at ``now``, from scratch. Costs up to O(jobs * placements * nodes)."""
    return Reference(snapshot, now, params).decide()


class Reference:
    """One decision; what it has placed so far counts for the ranks of what is left."""

    def __init__(self, snapshot: Snapshot, now: float, params: Params) -> None:
        self.s, self.now, self.params = snapshot, now, params
        self.nodes = {n.node_id: n for n in snapshot.nodes}
        self.free = {n.node_id: list(n.free) for n in snapshot.nodes}
        self.waiting = {j.job_id: j for j in snapshot.waiting if j.attempt <= params.max_retries}
        self.placed: dict[str, list[tuple[tuple[int, ...], float]]] = {n: [] for n in self.nodes}
        self.held_by: dict[str, tuple[QueuedJob, float, int]] = {}
        self.used_extra: dict[str, int] = {}
        self.tenant_devices: dict[str, int] = {}
        for run in snapshot.running:
            self._hold(run.job.tenant, len(run.devices))
        self.usable = sum(t.usable for t in snapshot.states.values())
        tenants = {j.tenant for j in snapshot.waiting} | {r.job.tenant for r in snapshot.running}
        self.weight_milli = sum(self._weight(t) for t in tenants)
        mean_clip = params.clip_ratio * snapshot.est_sum_us / snapshot.est_count if snapshot.est_count else 0
        self.clip_us = int(mean_clip)

    def decide(self) -> list[Decision]:
        out = self._ending()
        if self.params.binding != "late":
            return out + self._start_bound()
        if not self.usable:
            return out
        return out + self._fill() + self._backfill() + self._preempt()

    # What must end.

    def _ending(self) -> list[Decision]:
        runs = sorted(self.s.running, key=lambda r: r.job.job_id)
        out: list[Decision] = [Requeue(r.job.job_id, r.node_id, "its node is down") for r in runs if r.orphan]
        for job in sorted(self.s.waiting, key=lambda j: j.job_id):
            if job.attempt > self.params.max_retries:
                out.append(Reject(job.job_id, retries_text(job)))
            elif job.attempt and self._nowhere(job):
                out.append(Reject(job.job_id, NO_DEVICE_LEFT))
        late = [r for r in runs if self._over_limit(r) and not r.orphan]
        return out + [Reject(r.job.job_id, limit_text(r.job)) for r in late]

    def _over_limit(self, run: RunView) -> bool:
        return run.start_s + run.job.limit_s < self.now

    def _nowhere(self, job: QueuedJob) -> bool:
        sizes = {
            n.node_id: self.s.states[n.node_id].devices
            for n in self.s.nodes
            if n.device_type in job.device_types and self.s.states[n.node_id].devices >= job.n_devices
        }
        left = [len(usable_devices(n, range(size), job.avoid)) for n, size in sizes.items()]
        return bool(left) and max(left) < job.n_devices

    # The order.

    def _weight(self, tenant: str) -> int:
        return max(1, round(1000 * self.params.tenant_weights.get(tenant, 1.0)))

    def _hold(self, tenant: str, devices: int) -> None:
        self.tenant_devices[tenant] = self.tenant_devices.get(tenant, 0) + devices

    def rank(self, job: QueuedJob) -> tuple[Any, ...]:
        """Promoted jobs by deadline; then by priority, the tenant's class, the policy's order, and id."""
        est_us, submit_us = to_us(job.est_s), to_us(job.submit_s)
        if self.promoted(job):
            assert job.deadline_s is not None
            return (0, to_us(job.deadline_s), est_us, job.job_id)
        first = -job.priority if self.params.priorities else 0
        ageing_milli = round(1000 * self.params.ageing_ratio)
        order = {
            "fcfs": (submit_us, 0),
            "sjf": (est_us, submit_us),
            "aged": (1000 * min(est_us, self.clip_us) + ageing_milli * submit_us, est_us),
        }[self.params.order]
        return (1, first, self._tenant_class(job.tenant), *order, job.job_id)

    def _tenant_class(self, tenant: str) -> float:
        """0 while the tenant holds less than its soft cap; beyond it, what it holds per weight."""
        if not self.params.fair_tenants:
            return 0.0
        held_per_weight = 1000 * self.tenant_devices.get(tenant, 0) / self._weight(tenant)
        cap = 1000 * (self.params.tenant_slack_ratio * self.usable)
        return 0.0 if held_per_weight * self.weight_milli < cap else held_per_weight

    def promoted(self, job: QueuedJob) -> bool:
        """Whether some waiting work due at this job's deadline or later has used up its slack."""
        if job.deadline_s is None or not self.params.deadlines:
            return False
        rivals = [
            (to_us(j.deadline_s) // SLOT_US, to_us(j.est_s), j.n_devices)
            for j in self.waiting.values()
            if j.deadline_s is not None and j.device_types == job.device_types
        ]
        devices = sum(
            self.s.states[n.node_id].usable for n in self.s.nodes if n.device_type in job.device_types
        )
        safety_milli = round(1000 * self.params.deadline_safety_ratio)
        for slot in {slot for slot, _, _ in rivals if slot >= to_us(job.deadline_s) // SLOT_US}:
            due = [(est, n) for s, est, n in rivals if s <= slot]
            bound_s = sum(est * n for est, n in due) // max(1, devices) + max(est for est, _ in due)
            if devices and slot * SLOT_US - safety_milli * bound_s // 1000 <= to_us(self.now):
                return True
        return False

    # Placing.

    def _fill(self) -> list[Decision]:
        out: list[Decision] = []
        skipped: set[str] = set()
        reserved_types: set[frozenset[str]] = set()
        while candidates := [j for j in self.waiting.values() if j.job_id not in skipped]:
            ranks = {j.job_id: self.rank(j) for j in candidates}
            job = min(candidates, key=lambda j: ranks[j.job_id])
            where = self._best_fit(job)
            if where is not None:
                promoted = ranks[job.job_id][0] == 0
                order = f"first in order ({self.params.order})"
                out.append(self._place(job, where, "promoted: its deadline is near" if promoted else order))
                continue
            skipped.add(job.job_id)
            if job.n_devices > 1 and self.params.reserve and job.device_types not in reserved_types:
                reservation = self._reserve(job)
                if reservation is not None:
                    reserved_types.add(job.device_types)
                    out.append(reservation)
        return out

    def _open(self, node_id: str) -> int:
        """How many free devices of a node are not kept for a reservation."""
        free = len(self.free[node_id])
        return min(free, self.used_extra[node_id]) if node_id in self.held_by else free

    def _best_fit(self, job: QueuedJob) -> str | None:
        """Of the type with the largest share open; there, the node with the fewest open devices that suffice."""
        choices = []
        for node in self.s.nodes:
            if node.device_type in job.device_types:
                fitting = len(usable_devices(node.node_id, self.free[node.node_id], job.avoid))
                if min(self._open(node.node_id), fitting) >= job.n_devices:
                    share = self._share(node.device_type)
                    choices.append((-share, node.device_type, self._open(node.node_id), node.node_id))
        return min(choices)[3] if choices else None

    def _share(self, device_type: str) -> int:
        nodes = [n.node_id for n in self.s.nodes if n.device_type == device_type]
        return 1000 * sum(self._open(n) for n in nodes) // sum(self.s.states[n].usable for n in nodes)

    def _place(self, job: QueuedJob, node_id: str, reason: str) -> Place:
        devices = usable_devices(node_id, self.free[node_id], job.avoid)[: job.n_devices]
        self.free[node_id] = [d for d in self.free[node_id] if d not in devices]
        if node_id in self.held_by:
            self.used_extra[node_id] = max(0, self.used_extra[node_id] - job.n_devices)
        self.placed[node_id].append((devices, self.now + job.est_s))
        self._hold(job.tenant, job.n_devices)
        del self.waiting[job.job_id]
        return Place(job.job_id, node_id, devices, self.now + job.est_s, reason)

    def _reserve(self, job: QueuedJob) -> Reserve | None:
        """The node, not reserved yet, on which the job is expected to start first."""
        nodes = [
            n for n in self.s.nodes if n.device_type in job.device_types and n.node_id not in self.held_by
        ]
        if not any(self.free[n.node_id] for n in nodes):
            return None
        starts = [(start, n.node_id) for n in nodes if (start := self._shadow(job, n)) is not None]
        if not starts:
            return None
        (start_s, extra), node_id = min(starts, key=lambda item: (item[0][0], item[1]))
        self.held_by[node_id] = (job, start_s, extra)
        self.used_extra[node_id] = extra
        return Reserve(
            job.job_id, node_id, job.n_devices, start_s, f"needs {job.n_devices} devices of one node"
        )

    def _fit(self, node: NodeView, job: QueuedJob) -> set[int]:
        """Healthy devices of a node that the job may use, busy or not."""
        state = self.s.states[node.node_id]
        healthy = [] if state.down else [d for d in range(state.devices) if d not in state.unfit]
        return set(usable_devices(node.node_id, healthy, job.avoid))

    def _shadow(self, job: QueuedJob, node: NodeView) -> tuple[float, int] | None:
        """(start, extra devices then) of a job on a node, None if it never fits."""
        fit = self._fit(node, job)
        if len(fit) < job.n_devices:
            return None
        runs = [r for r in self.s.running if r.node_id == node.node_id]
        ends = [(d, max(self.now, r.est_end_s)) for r in runs for d in r.devices]
        ends += [(d, end) for devices, end in self.placed[node.node_id] for d in devices]
        end_of = {d: end for d, end in ends if d in fit}
        times = sorted({self.now, *end_of.values()})
        for time in times:
            available = len(fit.intersection(self.free[node.node_id])) + sum(
                e <= time for e in end_of.values()
            )
            if available >= job.n_devices:
                return time, available - job.n_devices
        return None

    def _backfill(self) -> list[Decision]:
        """Devices kept for a reservation go to the shortest jobs that end before it starts."""
        out: list[Decision] = []
        reserved = {job.job_id for job, _, _ in self.held_by.values()}
        for node_id, (_, start_s, _) in self.held_by.items():
            while True:
                fitting = [
                    j
                    for j in self.waiting.values()
                    if j.job_id not in reserved
                    and self.nodes[node_id].device_type in j.device_types
                    and len(usable_devices(node_id, self.free[node_id], j.avoid)) >= j.n_devices
                ]
                job = min(fitting, key=lambda j: (to_us(j.est_s), j.job_id), default=None)
                if job is None or self.now + job.est_s > start_s:
                    break
                out.append(self._place(job, node_id, "ends before the reservation starts"))
        return out

    # Preempting.

    def _preempt(self) -> list[Decision]:
        if not self.params.preempt:
            return []
        for job in sorted(self.waiting.values(), key=self.rank):
            promoted = self.promoted(job)
            choices = [c for n in self.s.nodes if (c := self._victims(job, n, promoted=promoted))]
            if choices:
                victims = min(choices, key=lambda c: (len(c), c[-1].job.priority, c[0].node_id))
                why = "its deadline is near" if promoted else f"priority {job.priority}"
                return [Preempt(r.job.job_id, r.node_id, job.job_id, why) for r in victims]
        return []

    def _victims(self, job: QueuedJob, node: NodeView, *, promoted: bool) -> list[RunView]:
        reservation = self.held_by.get(node.node_id)
        if node.device_type not in job.device_types or (reservation and reservation[0].job_id != job.job_id):
            return []
        fit = self._fit(node, job)
        have = len(fit.intersection(self.free[node.node_id]))
        victims: list[RunView] = []
        lower = self.params.priorities
        for run in sorted(self.s.running, key=lambda r: (r.job.priority, -r.start_s, r.job.job_id)):
            if run.node_id != node.node_id or not run.job.preemptible:
                continue
            if run.job.deadline_s is not None or self._over_limit(run):
                continue
            gained = len(fit.intersection(run.devices))
            if (promoted or (lower and run.job.priority < job.priority)) and have < job.n_devices and gained:
                victims.append(run)
                have += gained
        return victims if have >= job.n_devices else []

    # Early binding.

    def _start_bound(self) -> list[Decision]:
        out: list[Decision] = []
        for node in sorted(self.s.nodes, key=lambda n: n.node_id):
            queue = [j for j in self.waiting.values() if self.s.bound.get(j.job_id) == node.node_id]
            for job in sorted(queue, key=self.rank):
                if len(usable_devices(node.node_id, self.free[node.node_id], job.avoid)) < job.n_devices:
                    break
                out.append(self._place(job, node.node_id, f"first in the node's queue ({self.params.order})"))
        return out
