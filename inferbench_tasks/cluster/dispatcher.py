"""The policy at work: devices and leases in, what to start and what to stop out. Knows no Airflow.

The executor calls ``tick`` in its loop. Each change that the dispatcher sees becomes an event for the policy's
index and a line of the event log; each decision becomes a compare-and-set on the devices. Leases of other
schedulers, and those that an earlier life of this one left, are taken into the index as they are found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from inferbench_tasks.cluster.abilities import absent_host, lacking, matched
from inferbench_tasks.cluster.apart import elsewhere_part, own_part, together, why_none
from inferbench_tasks.cluster.device import Device, Lease, Outcome
from inferbench_tasks.cluster.host_nodes import HostNodes
from inferbench_tasks.cluster.keeping import Kept, kept_for
from inferbench_tasks.cluster.seen_lease import SeenLease, leases_in
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
#: After so long, and so many leases, the executor's loop goes on: hundreds of devices may become free at once.
GRANTING_S, LEAST_GRANTS = 0.3, 20
STANDALONE = "several devices can't be leased at once: PerfDB is a standalone MongoDB, not a replica set"


@dataclass(frozen=True, slots=True)
class Action:
    """What the executor has to do: ``start`` a job on its device, ``stop`` it, ``lost``: its worker is gone."""

    kind: Literal["start", "stop", "lost", "give_up"]
    job: str
    device_id: str = ""
    reason: str = ""


@dataclass(slots=True)
class Held:
    """A lease that is held, as far as is known. ``device_id``: the device whose worker runs the job's stages."""

    device_id: str
    lease: Lease
    started: bool = False

    @property
    def others(self) -> tuple[str, ...]:
        """The other devices that are held with that one."""
        return self.lease.members[1:]


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
        self._nodes = HostNodes(each_alone=policy.params.binding != "late")
        self._parts_since: dict[str, float] = {}
        self._changed = True
        self._decided_s = 0.0
        #: Why no job is given a device now; None: they are.
        self.held_back: str | None = None
        #: The tenants whose jobs get no device for now, with the reasons.
        self.withheld: dict[str, str] = {}
        self._aside: dict[str, QueuedJob] = {}
        self._apart: set[str] = set()
        """Jobs that hold devices of other hosts beside their own."""
        self._choosy: set[str] = set()
        """Jobs that need of their host what not every one can do."""
        self._matched: object = None
        """Those of them that waited, and what hosts told, when they were last matched."""
        self._kept: Kept | None = None

    # -- told by the executor -----------------------------------------------------------------------

    def knows(self, job: str) -> bool:
        """Whether the job waits or runs here."""
        return job in self.index.jobs or job in self._aside

    def submit(self, job: QueuedJob, run_id: str) -> None:
        """A job waits for a device from now on; harmless if it does already."""
        self.run_ids[job.job_id] = run_id
        if self.knows(job.job_id):
            return
        if job.avoid or job.ability:
            devices = self.cluster.devices()
            job = self._nodes.inward(matched(job, devices), devices)
        if job.ability:
            self._choosy.add(job.job_id)
        if job.elsewhere:
            self._apart.add(job.job_id)
        if self._why_aside(job) is not None:
            self._aside[job.job_id] = job
        else:
            self._apply(ev.Submitted(self.clock(), job))

    @property
    def aside(self) -> dict[QueuedJob, str]:
        """The jobs that are no candidates for a device for now, with the reasons."""
        reasons = {spec: self._why_aside(spec) or "next decision" for spec in self._aside.values()}
        if (kept := self._kept) is not None and (spec := self._aside.get(kept.job)) is not None:
            verb = "is" if len(kept.device_ids) == 1 else "are"
            reasons[spec] += f"; {', '.join(kept.device_ids)} {verb} kept for it"
        return reasons

    @property
    def devices_for_others(self) -> dict[str, Device]:
        """The devices as jobs of one host have them: what is kept for another job is none of theirs, and says so."""
        if (kept := self._kept) is None:
            return self.devices
        unfit = {"health": "quarantined", "reason": kept.reason}
        there = {name: self.devices[name] for name in kept.device_ids if name in self.devices}
        return {**self.devices, **{name: one.model_copy(update=unfit) for name, one in there.items()}}

    def _why_aside(self, job: QueuedJob) -> str | None:
        n_devices = job.n_in_all
        if n_devices > 1 and self.policy.params.binding != "late":
            return f"the policy {self.policy.name} gives each job one device; it needs {n_devices}"
        if n_devices > 1 and not self.cluster.grants_gangs:
            return STANDALONE
        if (reason := self.withheld.get(job.tenant)) is not None:
            return reason
        # A policy gives a job up that avoids all devices; workers that begin anew may tell otherwise.
        if job.ability and (reason := lacking(job, self.devices.values())) is not None:
            return reason
        if (reason := absent_host(job, self.devices.values(), TTL_S)) is not None:
            return reason
        # The policy places its own device alone: it is no candidate until there are other hosts' as well.
        if job.elsewhere and together(job, self.devices.values()) is None:
            return why_none(job, self.devices.values(), self.clock())
        return None

    def withhold(self, reason_by_tenant: Mapping[str, str]) -> None:
        """Waiting jobs of these tenants get no device until they are named no more; what runs goes on."""
        self.withheld = dict(reason_by_tenant)
        self._sort_out(
            self._aside, [job for job, e in self.index.jobs.items() if e.spec.tenant in self.withheld]
        )

    def _sort_out(self, aside: Iterable[str], candidates: Iterable[str]) -> None:
        """Of these jobs: who may have a device now is a candidate, who may not waits aside."""
        for job in list(aside):
            if self._why_aside(self._aside[job]) is None:
                self._apply(ev.Submitted(self.clock(), self._aside.pop(job)))
        for job in list(candidates):
            entry = self.index.jobs[job]
            if (
                entry.run is None
                and job not in self.held
                and (reason := self._why_aside(entry.spec)) is not None
            ):
                self._aside[job] = entry.spec
                self._apply(ev.Cancelled(self.clock(), job, f"for now: {reason}"))

    def device_of(self, job: str) -> str | None:
        """The device on which a job may run now: its lease is held, and its worker said yes."""
        held = self.held.get(job)
        return held.device_id if held and held.lease.state == "confirmed" else None

    def device_elsewhere(self, job: str, number: int = 1) -> str | None:
        """The device of that other host on which stages of the job may run now, where it holds one."""
        held = self.held.get(job)
        if held is None or held.lease.state != "confirmed":
            return None
        return next(iter(elsewhere_part(held.lease)[number - 1 :]), None)

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
        self._release(held, "ended")
        self._apply(ev.Finished(self.clock(), job, ok, held.lease.token))

    def withdraw(self, job: str, reason: str) -> None:
        """The job's user ended it, or nobody knows it any more."""
        if held := self.held.pop(job, None):
            self._release(held, "ended")
        if self._aside.pop(job, None) is None and self.knows(job):
            self._apply(ev.Cancelled(self.clock(), job, reason))

    def failed(
        self, job: str, reason: str, *, charged: bool = True, expired: Iterable[str] | None = None
    ) -> bool:
        """The run was lost through no fault of the job. True if it is to be run again, by us.

        ``expired``: the devices whose workers are gone, if that is why; the job avoids them alone, and else all that it
        had. The job leaves the index: it is submitted again once its ``serve`` waits again, maybe elsewhere.
        """
        held = self.held.pop(job)
        ours = self._release(held, "lost")
        now, token = self.clock(), held.lease.token
        if not self.knows(job):
            return False
        own, blamed = own_part(held.lease), held.lease.members if expired is None else tuple(expired)
        avoided = self._nodes.outward(self.index.jobs[job].spec).avoid
        if expired is not None and (lost := [name for name in own if name in blamed]):
            _, numbers = self._nodes.place(lost)
            self._apply(ev.LeaseExpired(now, job, token, numbers))
        else:
            self._apply(ev.InfraFailed(now, job, reason, charged, token))
        for name in (own[0], *elsewhere_part(held.lease)):
            self._nodes.look_again(self._nodes.place([name])[0])
        spec = self._nodes.outward(self.index.jobs[job].spec)
        if ours and spec.attempt:
            # The policy knows of its own host's devices alone, and takes them for lost with the other one.
            new = {name for name in spec.avoid - avoided if name in blamed}
            if charged or expired is not None:
                new |= {name for name in elsewhere_part(held.lease) if name in blamed}
            # What it avoids for its choice alone is told anew of each submission of it.
            self.cluster.remember(job, spec.attempt, sorted((avoided - spec.not_its_own - spec.unable) | new))
        self._apply(ev.Cancelled(now, job, f"to be submitted again: {reason}"))
        return ours and spec.attempt <= self.index.params.max_retries

    def _release(self, held: Held, outcome: Outcome) -> bool:
        return self.cluster.release(held.device_id, held.lease.token, outcome, held.others)

    # -- the loop -----------------------------------------------------------------------------------

    def tick(self) -> list[Action]:
        """Look at the devices, decide, take leases; what is to be done."""
        now = self.clock()
        self.devices = {d.device_id: d for d in self.cluster.devices()}
        before, self._kept = self._kept, self._to_keep(now)
        for event in self._nodes.changes(self.devices, now, self._kept):
            self._apply(event)
        leases = leases_in(self.devices.values())
        self._see_ends(leases, now)
        self._parts_since = {nonce: at for nonce, at in self._parts_since.items() if nonce in leases}
        actions = [action for seen in leases.values() for action in self._see_lease(seen, now)]
        self._seen_s = now
        self._match_again()
        self._apart = {job for job in self._apart if self.knows(job)}
        self._sort_out(sorted(self._apart & self._aside.keys()), sorted(self._apart & self.index.jobs.keys()))
        if before is not None:
            self._place_kept(before, now)
        if self.held_back is None and (self._changed or now - self._decided_s >= DECIDE_EVERY_S):
            actions += self._decide(now)
        return actions

    def _match_again(self) -> None:
        """What hosts can do is another thing once their workers began anew, or ended: jobs that need it avoid others.

        All shards of bricks are such jobs, and this is called several times a second: it looks at them on a change.
        """
        self._choosy = {job for job in self._choosy if self.knows(job)}
        devices = self.devices.values()
        told = {
            name: (one.device_type, one.host, one.capabilities, one.present(TTL_S))
            for name, one in self.devices.items()
        }
        seen = self._choosy - self.held.keys(), told
        if seen == self._matched:
            return
        self._matched = seen
        for job in sorted(self._choosy):
            entry = self.index.jobs.get(job)
            spec = self._aside[job] if entry is None else entry.spec
            if (entry is not None and (entry.run is not None or job in self.held)) or (
                matched(self._nodes.outward(spec), devices).unable == spec.unable
            ):
                continue
            if entry is not None:
                self._apply(ev.Cancelled(self.clock(), job, "for now: its hosts can do something else"))
            self._aside[job] = self._nodes.inward(matched(self._nodes.outward(spec), devices), devices)
        self._sort_out(
            sorted(self._choosy & self._aside.keys()), sorted(self._choosy & self.index.jobs.keys())
        )

    def _to_keep(self, now: float) -> Kept | None:
        """Which free devices are kept for a job on several hosts: for one at a time, none before a higher priority."""
        waiting = [self._aside[job] for job in self._apart & self._aside.keys()]
        waiting = [spec for spec in waiting if spec.tenant not in self.withheld]
        params = self.policy.params
        if not waiting or self.held_back is not None or not params.reserve or params.binding != "late":
            return None
        kept = kept_for(waiting, self.devices.values(), now) if self.cluster.grants_gangs else None
        if kept is None or self._overtakes(self._aside[kept.job], (*kept.device_ids, *kept.beside)):
            return None
        return kept

    def _overtakes(self, spec: QueuedJob, device_ids: Iterable[str]) -> bool:
        """Whether a job of a higher priority waits that could have one of these."""
        if not self.policy.params.priorities:
            return False
        devices = [device for name in device_ids if (device := self.devices.get(name)) is not None]
        return any(
            e.run is None
            and e.spec.job_id != spec.job_id
            and e.spec.priority > spec.priority
            and any(d.device_type in e.spec.device_types and d.device_id not in e.spec.avoid for d in devices)
            for e in self.index.jobs.values()
        )

    def _place_kept(self, kept: Kept, now: float) -> None:
        """Once there are enough the job has them, before the policy gives either to somebody else."""
        entry = self.index.jobs.get(kept.job)
        if entry is None or entry.run is not None or kept.job in self.held or self.held_back is not None:
            return
        spec = self._nodes.outward(entry.spec)
        chosen = together(spec, self.devices.values(), kept.device_ids)
        if chosen is not None and not self._overtakes(spec, chosen):
            self._take(spec, chosen[0], [*chosen[1:]], now + spec.est_s, now)

    def _see_ends(self, leases: Mapping[str, SeenLease], now: float) -> None:
        """Leases that another scheduler ended."""
        for job, held in list(self.held.items()):
            if held.lease.nonce in leases:
                continue
            del self.held[job]
            token, device = held.lease.token, self.devices.get(held.device_id)
            if device and device.last and device.last.token == token and device.last.outcome == "ended":
                self._apply(ev.Finished(now, job, True, token))
            else:
                self._apply(ev.Cancelled(now, job, "another scheduler has it"))

    def _see_lease(self, seen: SeenLease, now: float) -> list[Action]:
        lease, job = seen.lease, seen.lease.job
        if not seen.whole:
            self._see_part(seen, now)
            return []
        self._parts_since.pop(lease.nonce, None)
        if job not in self.held and not self._adopt(seen, now):
            return []
        held = self.held[job]
        if held.lease.nonce != lease.nonce:
            return []  # its former lease was read while it ended
        held.lease = lease
        if lost := seen.lost():
            reason = "; ".join(lost.values())
            again = self.failed(job, reason, expired=lost)
            return [Action("lost" if again else "stop", job, seen.lead, reason)]
        late = seen.unanswered() if seen.age_s > ANSWER_TIMEOUT_S else []
        if late or lease.state == "refused":
            self._return(held, seen.refused(), late, now)
            return []
        if lease.state == "confirmed" and not held.started:
            return [Action("start", job, seen.lead)]
        return []

    def _return(self, held: Held, refused: Mapping[str, str], late: list[str], now: float) -> None:
        """A device did not become the job's: it waits again, at its place, and no retry is counted."""
        job = held.lease.job
        del self.held[job]
        self._release(held, "returned")
        own = own_part(held.lease)
        waits: str | None = job
        if not any(name in refused for name in own):
            reason = "; ".join(refused.values()) or f"{', '.join(late)} does not answer"
            self._apply(ev.InfraFailed(now, job, reason, charged=False, token=held.lease.token))
            waits = None
        for device_id, reason in sorted(refused.items(), key=lambda item: item[0] not in own):
            node, [number] = self._nodes.place([device_id])
            self._apply(ev.HealthFailed(now, node, number, waits, reason))
            self._nodes.refused(node, number)
            waits = None

    def _see_part(self, seen: SeenLease, now: float) -> None:
        """Some devices of a lease do not show it: the documents were read while it was written; they are read again.

        A part that stays alone is given back: nobody else would.
        """
        since = self._parts_since.setdefault(seen.lease.nonce, now)
        if now - since > ANSWER_TIMEOUT_S:
            for device in seen.devices:
                self.cluster.release(device.device_id, seen.lease.token, "returned")

    def _adopt(self, seen: SeenLease, now: float) -> bool:
        """Take in a lease that this scheduler did not take; False while one of its devices is still another job's."""
        lease = seen.lease
        if any(not set(lease.members).isdisjoint(held.lease.members) for held in self.held.values()):
            return False
        self.held[lease.job] = Held(seen.lead, lease)
        self.run_ids.setdefault(lease.job, lease.run_id)
        self._aside.pop(lease.job, None)
        if lease.spec.get("elsewhere"):
            self._apart.add(lease.job)
        if lease.spec.get("ability"):
            self._choosy.add(lease.job)
        if not self.knows(lease.job):
            spec = self._nodes.inward(job_from_json(lease.spec), self.devices.values())
            self._apply(ev.Submitted(now, spec))
        self._apply(ev.LeaseGranted(now, lease.job, *self._nodes.place(own_part(lease)), lease.token))
        return True

    def _decide(self, now: float) -> list[Action]:
        self._changed, self._decided_s = False, now
        actions: list[Action] = []
        decisions = self.policy.decide(self.index, now)
        if decisions:
            self.log.decided(now, decisions)
        placed, began = 0, time.monotonic()
        for decision in decisions:
            if isinstance(decision, Place):
                if placed >= LEAST_GRANTS and time.monotonic() - began > GRANTING_S:
                    self._changed = True  # of what is left the policy decides again at the next look
                    break
                self._place(decision, now)
                placed += 1
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
        spec = self._nodes.outward(self.index.jobs[place.job_id].spec)
        lead, *others = self._nodes.devices(place.node_id, place.devices)
        if spec.elsewhere:
            # Of its own devices the policy may have chosen one whose host has the only other.
            if (chosen := together(spec, self.devices.values(), (lead,))) is None:
                reason = why_none(spec, self.devices.values(), now)
                self._apply(ev.InfraFailed(now, place.job_id, reason, charged=False))
                return
            lead, others = chosen[0], [*chosen[1:]]
        self._take(spec, lead, others, place.est_end_s, now)

    def _take(self, spec: QueuedJob, lead: str, others: list[str], est_end_s: float, now: float) -> None:
        job = spec.job_id
        lease = self.cluster.grant(
            lead, job, spec=to_json(spec), run_id=self.run_ids.get(job, ""), now_s=now, est_end_s=est_end_s,
            others=others,
        )  # fmt: skip
        if lease is None:
            self._apply(ev.InfraFailed(now, job, f"{', '.join([lead, *others])}: taken", charged=False))
            return
        self.held[job] = Held(lead, lease)
        for device_id in lease.members:
            self.devices[device_id] = self.devices[device_id].model_copy(update={"lease": lease})
        self._apply(ev.LeaseGranted(now, job, *self._nodes.place(own_part(lease)), lease.token))

    def _apply(self, event: ev.Event) -> None:
        self.index.apply(event)
        self.log.event(event)
        self._changed = True
