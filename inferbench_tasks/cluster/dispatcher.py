"""The policy at work: devices and leases in, what to start and what to stop out. Knows no Airflow.

The executor calls ``tick`` in its loop. Each change that the dispatcher sees becomes an event for the policy's
index and a line of the event log; each decision becomes a compare-and-set on the device. Leases of other
schedulers, and those that an earlier life of this one left, are taken into the index as they are found.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from inferbench_tasks.cluster.device import Device, Lease
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.decisions import Place, Preempt, Reject
from inferbench_tasks.scheduling.eventlog import EventLog, job_from_json, to_json
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import Policy

#: A worker answers a grant within a fraction of a second; one that is there and does not is not served.
ANSWER_TIMEOUT_S = 20.0
#: What was seen of the leases is the truth for so long; they are looked at several times a second.
FRESH_S = 2.0
#: A decision is taken when something changed, and at least so often (deadlines, time limits).
DECIDE_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Action:
    """What the executor has to do: ``start`` a job on its device, ``stop`` it, ``lost``: its worker is gone."""

    kind: Literal["start", "stop", "lost", "give_up"]
    job: str
    device_id: str = ""
    reason: str = ""


@dataclass(slots=True)
class Held:
    """A lease that is held, as far as is known."""

    device_id: str
    lease: Lease
    started: bool = False


class Dispatcher:
    """What one scheduler does with the cluster's devices and its own waiting jobs."""

    def __init__(
        self, cluster: Cluster, policy: Policy, log: EventLog, clock: Callable[[], float] = time.time
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.index = policy.new_index()
        self.log = log
        self.clock = clock
        self.held: dict[str, Held] = {}
        self.run_ids: dict[str, str] = {}
        self.devices: dict[str, Device] = {}
        self._seen_s = 0.0
        self._up: dict[str, str] = {}
        self._changed = True
        self._decided_s = 0.0
        #: Why no job is given a device now; None: they are.
        self.held_back: str | None = None

    # -- told by the executor -----------------------------------------------------------------------

    def knows(self, job: str) -> bool:
        """Whether the job waits or runs here."""
        return job in self.index.jobs

    def submit(self, job: QueuedJob, run_id: str) -> None:
        """A job waits for a device from now on; harmless if it does already."""
        self.run_ids[job.job_id] = run_id
        if not self.knows(job.job_id):
            self._apply(ev.Submitted(self.clock(), job))

    def device_of(self, job: str) -> str | None:
        """The device on which a job may run now: its lease is held, and its worker said yes."""
        held = self.held.get(job)
        return held.device_id if held and held.lease.state == "confirmed" else None

    def knows_leases(self) -> bool:
        """Whether the leases were looked at just now: not at its beginning, and not while PerfDB is away."""
        return self.clock() - self._seen_s < FRESH_S

    def started(self, job: str) -> None:
        """The job's ``serve`` was sent to its device."""
        held = self.held[job]
        if not held.started:
            held.started = True
            self._apply(ev.Started(self.clock(), job, held.lease.token))

    def ended(self, job: str, *, ok: bool) -> None:
        """The job is over, well or by its own fault; its device is free."""
        held = self.held.pop(job, None)
        if held is None:
            self.withdraw(job, "ended")
            return
        self.cluster.release(held.device_id, held.lease.token, "ended")
        self._apply(ev.Finished(self.clock(), job, ok, held.lease.token))

    def withdraw(self, job: str, reason: str) -> None:
        """The job's user ended it, or nobody knows it any more."""
        if held := self.held.pop(job, None):
            self.cluster.release(held.device_id, held.lease.token, "ended")
        if self.knows(job):
            self._apply(ev.Cancelled(self.clock(), job, reason))

    def failed(self, job: str, reason: str, *, charged: bool = True, expired: bool = False) -> bool:
        """The run was lost through no fault of the job. True if it is to be run again, by us.

        The job leaves the index: it is submitted again once its ``serve`` waits again, maybe elsewhere.
        """
        held = self.held.pop(job)
        ours = self.cluster.release(held.device_id, held.lease.token, "lost")
        now, token = self.clock(), held.lease.token
        if not self.knows(job):
            return False
        lost = (
            ev.LeaseExpired(now, job, token) if expired else ev.InfraFailed(now, job, reason, charged, token)
        )
        self._apply(lost)
        self._up.pop(held.device_id, None)
        spec = self.index.jobs[job].spec
        if ours and spec.attempt:
            self.cluster.remember(job, spec.attempt, sorted(spec.avoid))
        self._apply(ev.Cancelled(now, job, f"to be submitted again: {reason}"))
        return ours and spec.attempt <= self.index.params.max_retries

    # -- the loop -----------------------------------------------------------------------------------

    def tick(self) -> list[Action]:
        """Look at the devices, decide, take leases; what is to be done."""
        now = self.clock()
        self.devices = {d.device_id: d for d in self.cluster.devices()}
        actions: list[Action] = []
        for device in self.devices.values():
            self._see_device(device, now)
            actions += self._see_lease(device, now)
        self._seen_s = now
        for gone in self._up.keys() - self.devices.keys():
            if self._up[gone] != "down":
                self._up[gone] = "down"
                self._apply(ev.NodeDown(now, gone))
        if self.held_back is None and (self._changed or now - self._decided_s >= DECIDE_EVERY_S):
            actions += self._decide(now)
        return actions

    def _see_device(self, device: Device, now: float) -> None:
        state = "down" if not device.present(TTL_S) else device.health
        before = self._up.get(device.device_id)
        if state == before or (before is None and state == "down" and device.lease is None):
            return
        node = device.device_id
        if before is None or state == "ok":
            self._apply(ev.NodeUp(now, node, device.device_type))
        if state == "down":
            self._apply(ev.NodeDown(now, node))
        elif state == "quarantined":
            self._apply(ev.HealthFailed(now, node, 0, None, device.reason))
        self._up[node] = state

    def _see_lease(self, device: Device, now: float) -> list[Action]:
        node, lease = device.device_id, device.lease
        self._see_ends(device, now)
        if lease is None:
            return []
        job = lease.job
        if job not in self.held:
            self._adopt(device, lease, now)
        held = self.held[job]
        held.lease = lease
        if not device.present(TTL_S) or lease.state == "lost":
            reason = lease.reason if lease.state == "lost" else f"the worker of {node} is gone"
            return [Action("lost" if self.failed(job, reason, expired=True) else "stop", job, node, reason)]
        late = lease.state == "granted" and now - lease.granted_s > ANSWER_TIMEOUT_S
        if lease.state == "refused" or late:
            del self.held[job]
            self.cluster.release(node, lease.token, "returned")
            if late:
                self._apply(ev.InfraFailed(now, job, f"{node} does not answer", False, lease.token))
            else:
                self._apply(ev.HealthFailed(now, node, 0, job, lease.reason))
                self._up[node] = "quarantined"
            return []
        return [Action("start", job, node)] if lease.state == "confirmed" and not held.started else []

    def _see_ends(self, device: Device, now: float) -> None:
        """Leases of this device that another scheduler ended."""
        for job, held in list(self.held.items()):
            token = held.lease.token
            if held.device_id != device.device_id or (device.lease and device.lease.token == token):
                continue
            del self.held[job]
            if device.last and device.last.token == token and device.last.outcome == "ended":
                self._apply(ev.Finished(now, job, True, token))
            else:
                self._apply(ev.Cancelled(now, job, "another scheduler has it"))

    def _adopt(self, device: Device, lease: Lease, now: float) -> None:
        """A lease that this scheduler did not take."""
        self.held[lease.job] = Held(device.device_id, lease)
        self.run_ids.setdefault(lease.job, lease.run_id)
        if not self.knows(lease.job):
            self._apply(ev.Submitted(now, job_from_json(lease.spec)))
        self._apply(ev.LeaseGranted(now, lease.job, device.device_id, (0,), lease.token))

    def _decide(self, now: float) -> list[Action]:
        self._changed, self._decided_s = False, now
        actions: list[Action] = []
        decisions = self.policy.decide(self.index, now)
        if decisions:
            self.log.decided(now, decisions)
        for decision in decisions:
            if isinstance(decision, Place):
                self._place(decision, now)
            elif isinstance(decision, Reject):
                running = decision.job_id in self.held
                self.withdraw(decision.job_id, decision.reason)
                kind: Literal["stop", "give_up"] = "stop" if running else "give_up"
                actions.append(Action(kind, decision.job_id, reason=decision.reason))
            elif isinstance(decision, Preempt):
                node = self.held[decision.job_id].device_id
                if self.failed(decision.job_id, decision.reason, charged=False):
                    actions.append(Action("lost", decision.job_id, node, decision.reason))
        return actions

    def _place(self, place: Place, now: float) -> None:
        spec = self.index.jobs[place.job_id].spec
        lease = self.cluster.grant(
            place.node_id, place.job_id, spec=to_json(spec), run_id=self.run_ids.get(place.job_id, ""),
            now_s=now, est_end_s=place.est_end_s,
        )  # fmt: skip
        if lease is None:
            self._apply(ev.InfraFailed(now, place.job_id, f"{place.node_id} is taken", charged=False))
            return
        self.held[place.job_id] = Held(place.node_id, lease)
        self.devices[place.node_id] = self.devices[place.node_id].model_copy(update={"lease": lease})
        self._apply(ev.LeaseGranted(now, place.job_id, place.node_id, place.devices, lease.token))

    def _apply(self, event: ev.Event) -> None:
        self.index.apply(event)
        self.log.event(event)
        self._changed = True
