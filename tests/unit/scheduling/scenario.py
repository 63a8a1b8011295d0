"""Random histories of a scheduler, for the property tests: everything that can happen to it, in any order."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.decide import decide
from inferbench_tasks.scheduling.decisions import Decision, Place, Preempt, Reject, Requeue
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.model import Params, QueuedJob
from inferbench_tasks.scheduling.policies import POLICIES


class History:
    """An index, the events that made it, and the clock."""

    def __init__(self, rng: Random, policies: tuple[str, ...] = tuple(POLICIES)) -> None:
        self.rng = rng
        self.params = self._params(policies)
        self.index = Index(self.params)
        self.events: list[ev.Event] = []
        self.now = 0.0
        self.types = ["a", "b"][: rng.choice([1, 2])]
        self._number = 0
        for i in range(rng.randint(1, 5)):
            self.apply(ev.NodeUp(0.0, f"n{i}", rng.choice(self.types), rng.randint(1, 4)))

    def apply(self, event: ev.Event) -> None:
        self.index.apply(event)
        self.events.append(event)

    def decide(self) -> list[Decision]:
        return decide(self.index, self.now, self.params)

    def happen(self) -> None:
        """Some time passes, and something happens."""
        rng = self.rng
        self.now += rng.choice([0.0, 0.0, 1.0, 30.0, rng.random() * 100])
        running = [e.spec.job_id for e in self.index.jobs.values() if e.run]
        node = self.index.nodes.by_id[rng.choice(list(self.index.nodes.by_id))]
        draw = rng.random()
        if draw < 0.5:
            for _ in range(rng.randint(1, 4)):
                self.apply(ev.Submitted(self.now, self.job()))
        elif draw < 0.72 and running:
            self.apply(self._end_of(rng.choice(running)))
        elif draw < 0.77:
            self.apply(ev.NodeDown(self.now, node.node_id))
        elif draw < 0.84:
            self.apply(ev.NodeUp(self.now, node.node_id, node.type_name, node.total))
        elif draw < 0.88:
            victim = rng.choice([*node.running, None])
            self.apply(ev.HealthFailed(self.now, node.node_id, rng.choice([None, 0]), victim))
        elif self.index.jobs:
            job_id = rng.choice(list(self.index.jobs))
            if rng.random() < 0.5:
                self.apply(ev.EstimateChanged(self.now, job_id, rng.random() * 100))
            else:
                self.apply(ev.Cancelled(self.now, job_id))

    def obey(self, decisions: list[Decision]) -> None:
        """Carry most of the decisions out, as an executor does that sometimes loses a race."""
        for decision in decisions:
            if self.rng.random() < 0.1:
                continue
            if isinstance(decision, Place):
                self.apply(ev.LeaseGranted(self.now, decision.job_id, decision.node_id, decision.devices))
            elif isinstance(decision, Preempt):
                self.apply(ev.InfraFailed(self.now, decision.job_id, charged=False))
            elif isinstance(decision, Requeue):
                self.apply(ev.InfraFailed(self.now, decision.job_id))
            elif isinstance(decision, Reject):
                self.apply(ev.Cancelled(self.now, decision.job_id))

    def job(self) -> QueuedJob:
        rng = self.rng
        self._number += 1
        return QueuedJob(
            f"j{self._number}",
            f"t{rng.randint(0, 2)}",
            "spec",
            self.now - rng.choice([0, 0, 5]),
            rng.choice([1.0, 10.0, 60.0, rng.random() * 300]),
            rng.choice([math.inf, 50.0, 900.0]),
            frozenset(rng.sample(self.types, rng.randint(1, len(self.types)))),
            n_devices=rng.choice([1, 1, 1, 2, 3, 4]),
            priority=rng.choice([0, 0, 1, -1]),
            deadline_s=rng.choice([None, None, self.now + rng.random() * 1000]),
            preemptible=rng.random() < 0.3,
            avoid=frozenset(rng.choice([[], [], [], ["n0"], ["n1:0"]])),
        )

    def _end_of(self, job_id: str) -> ev.Event:
        charged = self.rng.random() < 0.7
        ends: list[ev.Event] = [
            ev.Finished(self.now, job_id),
            ev.Finished(self.now, job_id),
            ev.Started(self.now, job_id),
            ev.InfraFailed(self.now, job_id, charged=charged),
            ev.LeaseExpired(self.now, job_id),
        ]
        return self.rng.choice(ends)

    def _params(self, policies: tuple[str, ...]) -> Params:
        rng = self.rng
        params = POLICIES.load(rng.choice(policies))().params
        if params.binding == "late" and rng.random() < 0.4:
            params = replace(
                params,
                reserve=rng.random() < 0.5,
                fair_tenants=True,
                tenant_weights={"t0": 2.0, "t1": 0.5},
                tenant_slack_ratio=rng.choice([0.5, 1.0]),
                order=rng.choice(["aged", "sjf", "fcfs"]),
            )
        return params
