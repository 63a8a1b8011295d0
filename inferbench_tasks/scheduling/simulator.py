"""Runs a trace through a policy: the same ``Index`` and ``decide`` as the executor's, with a fake clock and lease."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from typing import Literal

from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.decisions import Decision, Place, Preempt, Reject, Requeue
from inferbench_tasks.scheduling.estimator import Estimator
from inferbench_tasks.scheduling.eventlog import EventLog
from inferbench_tasks.scheduling.outcome import JobOutcome, Outcome
from inferbench_tasks.scheduling.policies import Policy
from inferbench_tasks.scheduling.trace import Trace, TraceJob

REPAIR_S = 3600.0

#: (time, priority at that time, number, what, subject, token)
_Happening = tuple[float, int, int, str, str, int]
_FIRST = {"end": 0, "lost": 0, "outage": 1, "repair": 1, "submit": 2, "limit": 3}


class LeaseTable:
    """Who holds which device: the compare-and-set that the executor does in its store, here in a dict."""

    def __init__(self) -> None:
        self._holder: dict[tuple[str, int], str] = {}
        self._token = 0

    def grant(self, place: Place) -> int | None:
        """A fencing token, None if a device is held already."""
        slots = [(place.node_id, device) for device in place.devices]
        if any(device in self._holder for device in slots):
            return None
        self._holder.update(dict.fromkeys(slots, place.job_id))
        self._token += 1
        return self._token

    def release(self, job_id: str) -> None:
        self._holder = {d: job for d, job in self._holder.items() if job != job_id}


class _Running:
    __slots__ = ("node_id", "start_s", "token")

    def __init__(self, node_id: str, start_s: float, token: int) -> None:
        self.node_id, self.start_s, self.token = node_id, start_s, token


class Simulator:
    """One run of one trace. ``estimator``: learns from the runs and replaces the declared lengths."""

    def __init__(
        self,
        trace: Trace,
        policy: Policy,
        *,
        estimator: Estimator | None = None,
        log: EventLog | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.trace, self.policy = trace, policy
        self.index = policy.new_index()
        self.now = self._last_s = 0.0
        self._estimator, self._log, self._progress = estimator, log, progress
        self._leases = LeaseTable()
        self._jobs: dict[str, TraceJob] = {job.spec.job_id: job for job in trace.jobs}
        self._running: dict[str, _Running] = {}
        self._runs: dict[str, int] = {}
        self._waiting_by_spec: dict[str, set[str]] = {}
        self._checks = sorted(trace.failed_checks)
        self._happenings: list[_Happening] = []
        self._done: list[JobOutcome] = []
        for job in trace.jobs:
            self._plan(job.spec.submit_s, "submit", job.spec.job_id)
        for number, outage in enumerate(trace.outages):
            self._plan(outage.at_s, "outage", str(number))

    def run(self) -> Outcome:
        """Simulate until no event is left that could change anything."""
        for node in self.trace.nodes:
            self._apply(node)
        while self._happenings:
            self.now = self._happenings[0][0]
            while self._happenings and self._happenings[0][0] == self.now:
                _, _, _, what, subject, token = heappop(self._happenings)
                self._happen(what, subject, token)
            self._decide()
            if self._progress:
                self._progress(len(self._done))
        self.now = self._last_s  # limits of runs that had ended are no happenings
        unfinished = tuple(self._outcome(job_id, "unfinished") for job_id in sorted(self.index.jobs))
        return Outcome(self.policy.name, self.trace.name, tuple(self._done), unfinished)

    def _plan(self, at_s: float, what: str, subject: str, token: int = 0) -> None:
        heappush(self._happenings, (at_s, _FIRST[what], len(self._runs), what, subject, token))

    def _apply(self, event: ev.Event) -> None:
        if self._log:
            self._log.event(event)
        self._last_s = self.now
        self.index.apply(event)

    def _happen(self, what: str, subject: str, token: int) -> None:
        if what == "submit":
            self._submit(self._jobs[subject])
        elif what == "outage":
            outage = self.trace.outages[int(subject)]
            self._apply(outage)
        elif what == "repair":
            node = next(n for n in self.trace.nodes if n.node_id == subject)
            self._apply(replace(node, at_s=self.now))
        elif subject in self._running and self._running[subject].token == token:
            # "limit" only wakes the policy up. A run on a dead node ends by its Requeue, not by itself.
            if what == "end" and subject not in self.index.orphans:
                self._finish(subject)
            elif what == "lost":
                self._lose(subject, charged=True)

    def _submit(self, job: TraceJob) -> None:
        spec = job.spec
        if self._estimator:
            spec = replace(spec, est_s=self._estimator.estimate_s(spec.spec_hash, spec.est_s or None))
            self._waiting_by_spec.setdefault(spec.spec_hash, set()).add(spec.job_id)
        self._apply(ev.Submitted(self.now, spec))

    def _decide(self) -> None:
        """Carry decisions out until there are none left to carry out."""
        while True:
            decisions = self.policy.decide(self.index, self.now)
            if self._log:
                self._log.decided(self.now, decisions)
            changed = [self._carry_out(decision) for decision in decisions]
            if not any(changed):
                return

    def _carry_out(self, decision: Decision) -> bool:
        """Whether something changed that calls for another decision; placements alone do not."""
        if isinstance(decision, Place):
            return self._start(decision)
        if isinstance(decision, Requeue):
            self._lose(decision.job_id, charged=True)
        elif isinstance(decision, Preempt):
            self._lose(decision.job_id, charged=False)
        elif isinstance(decision, Reject):
            self._end(decision.job_id, "rejected")
            self._apply(ev.Cancelled(self.now, decision.job_id, decision.reason))
        else:
            return False
        return True

    def _start(self, place: Place) -> bool:
        token = self._leases.grant(place)
        if token is None:
            raise AssertionError(f"{place.job_id} was placed on a device of {place.node_id} that is leased")
        job_id, node_id = place.job_id, place.node_id
        self._apply(ev.LeaseGranted(self.now, job_id, node_id, place.devices, token))
        for number, (from_s, broken) in enumerate(self._checks):
            if broken == node_id and from_s <= self.now:
                del self._checks[number]
                self._leases.release(job_id)
                self._apply(ev.HealthFailed(self.now, node_id, None, job_id, "foreign process"))
                self._plan(self.now + REPAIR_S, "repair", node_id)
                return True
        self._apply(ev.Started(self.now, job_id, token))
        job = self._jobs[job_id]
        self._running[job_id] = _Running(node_id, self.now, token)
        self._waiting_by_spec.get(job.spec.spec_hash, set()).discard(job_id)
        runs = self._runs[job_id] = self._runs.get(job_id, 0) + 1
        if runs <= self.trace.lost_runs.get(job_id, 0):
            self._plan(self.now + job.actual_s / 2, "lost", job_id, token)
        else:
            self._plan(self.now + job.actual_s, "end", job_id, token)
        if job.spec.limit_s < math.inf:
            limit_end_s = self.index.jobs[job_id].run.limit_end_s  # type: ignore[union-attr]
            self._plan(math.nextafter(limit_end_s, math.inf), "limit", job_id, token)
        return False

    def _lose(self, job_id: str, *, charged: bool) -> None:
        token = self._running.pop(job_id).token
        self._leases.release(job_id)
        self._apply(ev.InfraFailed(self.now, job_id, charged=charged, token=token))

    def _finish(self, job_id: str) -> None:
        token, job = self._running[job_id].token, self._jobs[job_id]
        self._end(job_id, "finished")
        self._apply(ev.Finished(self.now, job_id, token=token))
        if self._estimator:
            declared_s = job.spec.est_s or None
            self._estimator.observe(job.spec.spec_hash, job.actual_s, declared_s)
            for waiting in sorted(self._waiting_by_spec.get(job.spec.spec_hash, ())):
                declared_s = self._jobs[waiting].spec.est_s or None
                est_s = self._estimator.estimate_s(job.spec.spec_hash, declared_s)
                self._apply(ev.EstimateChanged(self.now, waiting, est_s))

    def _end(self, job_id: str, status: Literal["finished", "rejected"]) -> None:
        self._done.append(self._outcome(job_id, status))
        self._running.pop(job_id, None)
        self._leases.release(job_id)
        self._waiting_by_spec.get(self._jobs[job_id].spec.spec_hash, set()).discard(job_id)

    def _outcome(self, job_id: str, status: Literal["finished", "rejected", "unfinished"]) -> JobOutcome:
        """As it stands now."""
        run, spec = self._running.get(job_id), self._jobs[job_id].spec
        return JobOutcome(
            job_id,
            spec.tenant,
            spec.submit_s,
            run.start_s if run else None,
            self.now,
            status,
            self._runs.get(job_id, 0),
            spec.n_devices,
            spec.deadline_s,
            run.node_id if run else "",
        )


def simulate(trace: Trace, policy: Policy, **options: object) -> Outcome:
    """One run of a trace under a policy; options as of ``Simulator``."""
    return Simulator(trace, policy, **options).run()  # type: ignore[arg-type]
