"""Shortest job first as Airflow's own priority, so that its UI shows the order that the executor follows.

    weight = 1e9 + 1e6 * priority - expected seconds        clamped to 1 .. 2**31 - 1

Airflow refuses larger weights, and smaller ones have crashed its scheduler on PostgreSQL.
"""

from __future__ import annotations

from typing import Any

from airflow.task.priority_strategy import PriorityWeightStrategy

BASE, PER_PRIORITY, LEAST, MOST = 1_000_000_000, 1_000_000, 1, 2**31 - 1
#: What starting a server, four tasks and the collection take beside the load: the first guess for a job that does not
#: declare its duration, until runs of it have been seen.
AROUND_LOAD_S = 10.0


def clamped(value: float) -> int:
    """What Airflow can store."""
    return int(min(max(value, LEAST), MOST))


def weight_of(job: dict[str, Any] | None) -> int:
    """The weight of a job's tasks, from its document; ``BASE`` for a task of no job."""
    if job is None:
        return BASE
    load = job["load"]
    seconds = job["expected_duration_s"] or AROUND_LOAD_S + load["warmup_s"] + load["duration_s"]
    return weight(job["priority"], seconds)


def weight(priority: int, expected_s: float) -> int:
    """Of a job of that priority and length."""
    return clamped(BASE + PER_PRIORITY * priority - min(expected_s, PER_PRIORITY - 1))


class ShortestJobFirst(PriorityWeightStrategy):
    """The weight that ``weight_of`` gave the task, clamped; stateless.

    A trigger's own priority is not visible here: the executor writes it when the job starts to wait.
    """

    def get_weight(self, ti: Any) -> int:
        return clamped(ti.task.priority_weight)
