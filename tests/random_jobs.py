"""A site under random jobs: its workers and an executor's part, all by a seed, for a scheduler on a real PerfDB."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from inferbench_tasks.cluster.dispatcher import Dispatcher
from inferbench_tasks.cluster.store import TTL_S, Cluster
from inferbench_tasks.scheduling.model import QueuedJob
from tests.schedulers import Clock, age


class Site:
    """Workers of the devices ``names``, each of which is known, and whose first letter is its host's.

    ``dies_ratio``: of its steps in which a worker is lost. ``fails_ratio``: of the jobs' ends that are a task's that
    was killed. ``anew_ratio``: of the jobs that wait again, whose user starts them anew: they avoid nothing then.
    """

    def __init__(
        self,
        cluster: Cluster,
        make: type,
        clock: Clock,
        rng: random.Random,
        names: Sequence[str],
        jobs: Mapping[str, QueuedJob],
        *,
        dies_ratio: float,
        fails_ratio: float = 0.0,
        anew_ratio: float = 0.0,
    ) -> None:
        self.cluster, self.make, self.clock, self.rng = cluster, make, clock, rng
        self.names, self.jobs = names, jobs
        self.dies_ratio, self.fails_ratio, self.anew_ratio = dies_ratio, fails_ratio, anew_ratio
        self.dead: dict[str, int] = {}
        self.scheduler: Dispatcher = make()
        self.ends: dict[str, float] = {}
        self.over: Counter[str] = Counter()

    def play(self, most_steps: int = 1500) -> None:
        """Until each job has ended."""
        for _ in range(most_steps):
            self.step()
            if len(self.over) == len(self.jobs):
                return

    def step(self) -> None:
        """Each one's turn, once; what has to hold is looked at behind it."""
        if self.rng.random() < 0.04:
            self.scheduler = self.make()
            self.scheduler.tick()
        self.submit()
        self.workers()
        for action in self.scheduler.tick():
            if action.kind == "start":
                assert action.job not in self.over
                elsewhere = self.scheduler.device_elsewhere(action.job)
                assert (elsewhere is not None) == bool(self.jobs[action.job].elsewhere)
                self.scheduler.started(action.job)
                self.ends.setdefault(action.job, self.clock.now + self.rng.uniform(1, 40))
            elif action.kind in ("stop", "give_up"):
                self.over[action.job] += 1
                self.ends.pop(action.job, None)
            else:
                self.ends.pop(action.job, None)
        self.end()
        self.check()
        self.clock.now += self.rng.uniform(0.2, 3)

    def submit(self) -> None:
        """What waits and is not known yet, as the executor does in each of its loops."""
        for name, spec in self.jobs.items():
            if name not in self.over and not self.scheduler.knows(name):
                attempt, avoid = self.cluster.history(name)
                if self.anew_ratio and self.rng.random() < self.anew_ratio:
                    avoid = frozenset()
                values = {f: getattr(spec, f) for f in spec.__dataclass_fields__}
                self.scheduler.submit(QueuedJob(**{**values, "attempt": attempt, "avoid": avoid}), "")

    def workers(self) -> None:
        """Beat, confirm, refuse, die, come back."""
        for name in self.names:
            if name in self.dead:
                self.dead[name] -= 1
                if self.dead[name] <= 0:
                    del self.dead[name]
                continue
            if self.rng.random() < self.dies_ratio:
                self.dead[name] = self.rng.randint(1, 12)
                age(self.cluster, name, TTL_S + 1)
                continue
            sick = self.rng.random() < 0.03
            self.cluster.beat(name, health="quarantined" if sick else "ok", reason="hot", queue_s=0)
            found = self.cluster.get(name)
            assert found is not None
            if found.lease is not None and found.lease.state == "granted" and self.rng.random() < 0.8:
                state = "refused" if sick else "confirmed"
                self.cluster.answer(name, found.lease.token, state, "hot" if sick else "")  # type: ignore[arg-type]

    def end(self) -> None:
        """The jobs whose time has come, well or killed."""
        for name, end_s in list(self.ends.items()):
            if end_s <= self.clock.now and self.scheduler.device_of(name) is not None:
                del self.ends[name]
                if self.fails_ratio and self.rng.random() < self.fails_ratio:
                    if not self.scheduler.failed(name, "a rank was killed"):
                        self.over[name] += 1
                else:
                    self.scheduler.ended(name, ok=True)
                    self.over[name] += 1

    def check(self) -> None:
        """No device twice (its document has one lease); each lease whole: of so many devices of one host as were asked
        for, or of one and one of each of so many other hosts.
        """
        leases: dict[str, list[str]] = {}
        jobs: dict[str, str] = {}
        for found in self.cluster.devices():
            if found.lease is not None:
                leases.setdefault(found.lease.nonce, []).append(found.device_id)
                assert jobs.setdefault(found.lease.job, found.lease.nonce) == found.lease.nonce
                assert found.token == found.lease.token
                assert found.lease.job not in self.over
                assert found.device_id in found.lease.members
        for name, nonce in jobs.items():
            spec, members = self.jobs[name], leases[nonce]
            assert len(members) == spec.n_in_all
            assert len({member[0] for member in members}) == (spec.n_in_all if spec.elsewhere else 1)
