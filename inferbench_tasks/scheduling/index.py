"""The incremental state of the scheduler: it changes by events alone, so a restart is a replay of them."""

from __future__ import annotations

import math
from dataclasses import replace
from heapq import heapify, heappop, heappush

from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.early import EarlyQueue
from inferbench_tasks.scheduling.lanes import Entry, Tenant
from inferbench_tasks.scheduling.late_queue import LateQueue
from inferbench_tasks.scheduling.model import EventError, Params, RunView, Snapshot, device_name, to_us
from inferbench_tasks.scheduling.nodes import Node, Nodes
from inferbench_tasks.scheduling.run import Run

#: From so many jobs on, and at each doubling, the mean of the estimates is taken as settled.
SETTLED = 64


class Index:
    """What ``decide`` looks at. One per policy: the orders in it are those of its ``params``.

    ``apply`` raises EventError if an event contradicts the ones before; the index is then as it was.
    """

    def __init__(self, params: Params) -> None:
        self.params = params
        self.jobs: dict[str, Entry] = {}
        self.nodes = Nodes()
        self.tenants: dict[str, Tenant] = {}
        self.active_weight_milli = 0
        self.est_sum_us = 0
        self.est_count = 0
        self.retrying: dict[str, Entry] = {}
        """Waiting after a charged failure: the only ones that can have run out of retries or devices."""
        self.orphans: dict[str, Entry] = {}
        self.preemptible: dict[str, Entry] = {}
        self.limits: list[tuple[float, str]] = []
        self.queue: LateQueue | EarlyQueue = (
            LateQueue(params) if params.binding == "late" else EarlyQueue(params, self.nodes)
        )
        self._late = self.queue if isinstance(self.queue, LateQueue) else None
        self._handlers = {
            ev.Submitted: self._submitted,
            ev.LeaseGranted: self._lease_granted,
            ev.Started: self._started,
            ev.Finished: self._finished,
            ev.InfraFailed: self._infra_failed,
            ev.Cancelled: self._cancelled,
            ev.NodeUp: self._node_up,
            ev.NodeDown: self._node_down,
            ev.HealthFailed: self._health_failed,
            ev.LeaseExpired: self._lease_expired,
            ev.EstimateChanged: self._estimate_changed,
        }

    def apply(self, event: ev.Event) -> None:
        """Take in one event; costs O(log n)."""
        self._handlers[type(event)](event)  # type: ignore[operator]

    def snapshot(self) -> Snapshot:
        """All of it as plain data; costs O(n)."""
        running = [e for e in self.jobs.values() if e.run is not None]
        return Snapshot(
            waiting=tuple(e.spec for e in self.jobs.values() if e.run is None),
            running=tuple(
                RunView(e.spec, e.run.node_id, e.run.devices, e.run.start_s, e.run.est_end_s, e.run.orphan)
                for e in running
                if e.run
            ),
            nodes=tuple(node.view() for node in self.nodes.by_id.values()),
            states=self.nodes.states(),
            bound={e.spec.job_id: e.bound for e in self.jobs.values() if e.run is None and e.bound},
            est_sum_us=self.est_sum_us,
            est_count=self.est_count,
        )

    def clip_us(self) -> int:
        """Estimates count at most this much in the aged order."""
        if not self.est_count:
            return 0
        return int(self.params.clip_ratio * self.est_sum_us / self.est_count)

    # One method per event.

    def _submitted(self, event: ev.Submitted) -> None:
        job = event.job
        if job.job_id in self.jobs:
            raise EventError(f"Job {job.job_id!r} is submitted a second time")
        entry = self.jobs[job.job_id] = Entry(job)
        self.est_sum_us += entry.est_us
        self.est_count += 1
        name = job.tenant if self.params.fair_tenants else ""
        tenant = self.tenants.get(name)
        if tenant is None:
            tenant = self.tenants[name] = Tenant(name, self._weight_milli(name))
        if not tenant.active:
            self.active_weight_milli += tenant.weight_milli
        tenant.active += 1
        entry.tenant = tenant
        if self._late is not None and not job.attempt:
            if not self.est_count & (self.est_count - 1) and self.est_count >= SETTLED:
                self._late.raise_floor(self.clip_us())
            self._late.add(entry)
        else:
            self._wait(entry, event.at_s)

    def _lease_granted(self, event: ev.LeaseGranted) -> None:
        entry = self._known(event.job_id)
        node = self._node(event.node_id)
        if entry.run is not None:
            raise EventError(f"Job {event.job_id!r} gets a lease while it holds one")
        if not event.devices or len(set(event.devices)) != len(event.devices):
            raise EventError(f"The lease of job {event.job_id!r} names no device, or one twice")
        for device in event.devices:
            if not 0 <= device < node.total:
                raise EventError(f"Node {event.node_id!r} has no device {device}")
            if device in node.leased:
                raise EventError(
                    f"Device {device_name(event.node_id, device)} is leased to {node.leased[device]!r}, "
                    f"and now to {event.job_id!r} as well"
                )
        self._unwait(entry, held=len(event.devices))
        run = entry.run = Run(event.node_id, event.devices, event.token)
        self.nodes.lease(node, event.devices, event.job_id, entry)
        if entry.spec.preemptible:
            self.preemptible[event.job_id] = entry
        if node.down:
            run.orphan = True
            self.orphans[event.job_id] = entry
        self._begin(entry, run, event.at_s)

    def _started(self, event: ev.Started) -> None:
        entry = self._known(event.job_id)
        if entry.run is None:
            self._stale_or_error(event.token, f"Job {event.job_id!r} starts without a lease")
        elif not self._is_stale(entry.run, event.token):
            self._begin(entry, entry.run, event.at_s)

    def _finished(self, event: ev.Finished) -> None:
        entry = self.jobs.get(event.job_id)
        if entry is None or entry.run is None:
            self._stale_or_error(event.token, f"Job {event.job_id!r} finishes but does not run")
        elif not self._is_stale(entry.run, event.token):
            self._release(entry)
            self._end(entry)

    def _infra_failed(self, event: ev.InfraFailed) -> None:
        entry = self.jobs.get(event.job_id)
        if entry is None:
            self._stale_or_error(event.token, f"Job {event.job_id!r} is not known")
        elif entry.run is not None and not self._is_stale(entry.run, event.token):
            self._return(entry, event.at_s, charged=event.charged)

    def _cancelled(self, event: ev.Cancelled) -> None:
        entry = self._known(event.job_id)
        if entry.run is not None:
            self._release(entry)
        else:
            self._unwait(entry, held=0)
        self._end(entry)

    def _node_up(self, event: ev.NodeUp) -> None:
        if event.n_devices < 1:
            raise EventError(f"Node {event.node_id!r} comes up without devices")
        known = self.nodes.by_id.get(event.node_id)
        if known and any(d >= event.n_devices for d in known.leased):
            raise EventError(f"Node {event.node_id!r} comes back without a device that is leased")
        node = self.nodes.up(event.node_id, event.device_type, event.n_devices)
        for job_id, entry in node.running.items():
            if entry.run:
                entry.run.orphan = False
            self.orphans.pop(job_id, None)
        self._rebind(event.at_s)

    def _node_down(self, event: ev.NodeDown) -> None:
        node = self._node(event.node_id)
        self.nodes.down(node)
        for job_id, entry in node.running.items():
            if entry.run:
                entry.run.orphan = True
            self.orphans[job_id] = entry
        self._rebind(event.at_s)

    def _health_failed(self, event: ev.HealthFailed) -> None:
        node = self._node(event.node_id)
        devices = tuple(range(node.total)) if event.device is None else (event.device,)
        self.nodes.mark(node, devices, "quarantined")
        if event.job_id is not None:
            entry = self._known(event.job_id)
            if entry.run is not None:
                self._return(entry, event.at_s, charged=False)
        self._rebind(event.at_s)

    def _lease_expired(self, event: ev.LeaseExpired) -> None:
        entry = self._known(event.job_id)
        if entry.run is None:
            self._stale_or_error(event.token, f"Job {event.job_id!r} holds no lease that could expire")
        elif not self._is_stale(entry.run, event.token):
            lost = event.devices or entry.run.devices
            self.nodes.mark(self._node(entry.run.node_id), lost, "suspect")
            self._return(entry, event.at_s, charged=True, lost=lost)
            self._rebind(event.at_s)

    def _estimate_changed(self, event: ev.EstimateChanged) -> None:
        entry = self._known(event.job_id)
        limit_s = entry.spec.limit_s if event.limit_s is None else event.limit_s
        spec = replace(entry.spec, est_s=event.est_s, limit_s=limit_s)
        bound = entry.bound
        if entry.run is None:
            self._unwait(entry, held=0)
        self.est_sum_us += to_us(event.est_s) - entry.est_us
        entry.spec, entry.est_us = spec, to_us(event.est_s)
        if entry.run is not None:
            self._begin(entry, entry.run, entry.run.start_s)
        else:
            self._wait(entry, event.at_s, bound)

    # What the events have in common.

    def _known(self, job_id: str) -> Entry:
        if job_id not in self.jobs:
            raise EventError(f"Job {job_id!r} is not known: never submitted, or it has ended")
        return self.jobs[job_id]

    def _node(self, node_id: str) -> Node:
        if node_id not in self.nodes.by_id:
            raise EventError(f"Node {node_id!r} is not known: it never came up")
        return self.nodes.by_id[node_id]

    def _weight_milli(self, name: str) -> int:
        if not self.params.fair_tenants:
            return 0
        return max(1, round(1000 * self.params.tenant_weights.get(name, 1.0)))

    def _is_stale(self, run: Run, token: int | None) -> bool:
        return token is not None and run.token is not None and token != run.token

    def _stale_or_error(self, token: int | None, message: str) -> None:
        """A report with a token can be late and is then ignored; without one it is a contradiction."""
        if token is None:
            raise EventError(message)

    def _wait(self, entry: Entry, at_s: float, bound: str | None = None) -> None:
        if entry.spec.attempt:
            self.retrying[entry.spec.job_id] = entry
            if entry.spec.attempt > self.params.max_retries:
                return  # It waits for its end only: ``decide`` proposes to give it up.
        if isinstance(self.queue, LateQueue):
            self.queue.add(entry)
        else:
            self.queue.add(entry, at_s, bound)

    def _unwait(self, entry: Entry, *, held: int) -> None:
        self.retrying.pop(entry.spec.job_id, None)
        if entry.waiting:
            self.queue.take(entry, held)
            self.queue.tidy(entry)
        else:
            self.queue.hold(entry.tenant, held)

    def _begin(self, entry: Entry, run: Run, at_s: float) -> None:
        run.begin(at_s, entry.spec)
        self.nodes.refresh(self._node(run.node_id))
        if run.limit_end_s < math.inf:
            heappush(self.limits, (run.limit_end_s, entry.spec.job_id))
            if len(self.limits) > 2 * len(self.jobs) + 64:
                self.limits = [item for item in self.limits if self.limit_holds(*item)]
                heapify(self.limits)

    def limit_holds(self, end_s: float, job_id: str) -> bool:
        """Whether this is a time limit of a run that goes on."""
        entry = self.jobs.get(job_id)
        return entry is not None and entry.run is not None and entry.run.limit_end_s == end_s

    def _release(self, entry: Entry) -> None:
        run, job_id = entry.run, entry.spec.job_id
        assert run is not None
        self.nodes.release(self._node(run.node_id), run.devices, job_id)
        self.queue.hold(entry.tenant, -len(run.devices))
        self.preemptible.pop(job_id, None)
        self.orphans.pop(job_id, None)
        entry.run = None
        while self.limits and not self.limit_holds(*self.limits[0]):
            heappop(self.limits)

    def _return(self, entry: Entry, at_s: float, *, charged: bool, lost: tuple[int, ...] = ()) -> None:
        """``lost``: the devices that it avoids from now on, if it is charged; empty: all that it had."""
        run = entry.run
        assert run is not None
        self._release(entry)
        if charged:
            avoid = entry.spec.avoid | {device_name(run.node_id, d) for d in lost or run.devices}
            entry.spec = replace(entry.spec, attempt=entry.spec.attempt + 1, avoid=avoid)
        self._wait(entry, at_s)

    def _end(self, entry: Entry) -> None:
        tenant = entry.tenant
        tenant.active -= 1
        if not tenant.active:
            self.active_weight_milli -= tenant.weight_milli
            del self.tenants[tenant.name]
        del self.jobs[entry.spec.job_id]

    def _rebind(self, at_s: float) -> None:
        if isinstance(self.queue, EarlyQueue):
            self.queue.rebind(at_s)
