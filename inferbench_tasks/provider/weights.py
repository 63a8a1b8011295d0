"""Shortest job first as Airflow's own priority, so that its UI shows the order that the executor follows.

    weight = 1e9 + 1e6 * priority - expected seconds        clamped to 1 .. 2**31 - 1

Airflow refuses larger weights, and smaller ones have crashed its scheduler on PostgreSQL.
"""

from __future__ import annotations

from typing import Any

from airflow.task.priority_strategy import PriorityWeightStrategy

from inferbench_tasks.plan.graph import Node

BASE, PER_PRIORITY, LEAST, MOST = 1_000_000_000, 1_000_000, 1, 2**31 - 1


def clamped(value: float) -> int:
    """The nearest whole number that Airflow can store as a weight."""
    return int(min(max(value, LEAST), MOST))


def weight_of(node: Node) -> int:
    """The weight of a node's task; ``BASE`` for one of no job."""
    if node.job_index is None:
        return BASE
    return weight(node.input["job"]["priority"], node.expected_s)


def weight(priority: int, expected_s: float) -> int:
    """Of a job of that priority and length."""
    return clamped(BASE + PER_PRIORITY * priority - min(expected_s, PER_PRIORITY - 1))


class ShortestJobFirst(PriorityWeightStrategy):
    """The weight that ``weight_of`` gave the task, clamped; stateless.

    A trigger's own priority is not visible here: the executor writes it when the job starts to wait.
    """

    def get_weight(self, ti: Any) -> int:
        return clamped(ti.task.priority_weight)
