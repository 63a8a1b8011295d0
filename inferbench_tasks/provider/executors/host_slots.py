"""How many tasks may be with the host workers, running or next, and whose is the next."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.weights import BASE, MOST, PER_PRIORITY

#: The others are kept back: the most urgent comes first, and a Celery queue is first in, first out. At least the
#: processes of the host workers, with one in reserve for each.
HOST_SLOTS = "INFERBENCH_HOST_SLOTS"
DEFAULT_HOST_SLOTS = 4
#: A run is remembered, also while nothing of it waits, until there are more than so many.
MOST_RUNS = 4096


@dataclass(frozen=True, slots=True)
class HostTask:
    """A task that may go to a host worker: its ``run`` is (DAG, DAG run), its ``weight`` Airflow's (``weights.py``)."""

    key: Any
    run: tuple[str, str]
    weight: int

    def priority(self, held: int) -> float:
        """Of its job, within the role of who asks for it; ``held``: the slots of its tenant now.

        Somebody waits for what Airflow is to start first (a submission's validation): it goes before all others, but
        of each tenant's one at a time, for any number of submissions is soon sent.
        """
        if self.weight >= MOST:
            return math.inf if not held else 0
        return -((BASE - self.weight) // PER_PRIORITY)


class HostSlots:
    """Counts the tasks that were sent and have not ended, and lets tenants take turns.

    A free slot goes to the highest priority; of that to the tenant that has the fewest slots now, among equals to the
    one that was given none for longest; of its tasks to the most urgent, among equals to the run that came first. So
    whoever has one task waits for one task of each other tenant, not for all that somebody else submitted before; and
    a tenant's own runs end one after the other, instead of all of them generating before the first is converted.
    """

    def __init__(self) -> None:
        text = os.environ.get(HOST_SLOTS) or str(DEFAULT_HOST_SLOTS)
        if not text.isdecimal() or int(text) < 1:
            raise InputError(f"{HOST_SLOTS} is {text!r}; a whole number from 1 is needed.")
        self._slots = int(text)
        self._tenants: dict[Any, str] = {}
        """Key of a task that was sent -> its tenant."""
        self._turns = count(1)
        self._last_turn: Counter[str] = Counter()
        self._arrivals: dict[tuple[str, str], int] = {}

    def ended(self, running: set[Any]) -> None:
        """What does not run (any more) gives its slot back."""
        self._tenants = {key: tenant for key, tenant in self._tenants.items() if key in running}

    def take(
        self, tasks: Sequence[HostTask], tenant_of: Callable[[tuple[str, str]], str], most: int
    ) -> Iterator[Any]:
        """The keys of those that get a slot now, in the order of their turns; ``most`` of them.

        ``tenant_of``: of a run, by the login that started it; asked only while a slot is free.
        """
        for task in tasks:
            self._arrivals.setdefault(task.run, next(self._turns))
        if len(self._arrivals) > MOST_RUNS:
            waiting = {task.run for task in tasks}
            self._arrivals = {run: turn for run, turn in self._arrivals.items() if run in waiting}
        left = list(tasks)
        for _ in range(most):
            if not left or len(self._tenants) >= self._slots:
                return
            held = Counter(self._tenants.values())

            def turn(task: HostTask, held: Counter[str] = held) -> tuple[float, int, int, int, int]:
                tenant = tenant_of(task.run)
                standing = held[tenant], self._last_turn[tenant]
                return (-task.priority(held[tenant]), *standing, -task.weight, self._arrivals[task.run])

            task = min(left, key=turn)
            left.remove(task)
            tenant = tenant_of(task.run)
            self._tenants[task.key] = tenant
            self._last_turn[tenant] = next(self._turns)
            yield task.key
