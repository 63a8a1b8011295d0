"""Shortest job first as Airflow's priority weights."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.plan.graph import Node
from inferbench_tasks.provider import weights
from tests.unit.plan.test_compile import submission


def _node(priority: int = 0, seconds: float | None = None) -> Node:
    return compile_plan(submission(priority=priority, expected_duration_s=seconds)).nodes[0]


def test_shorter_is_heavier_and_priority_counts_more() -> None:
    """Length decides among equals, priority before that; a job that declares nothing counts by its load."""
    assert weights.weight_of(_node(seconds=15)) > weights.weight_of(_node(seconds=50))
    assert weights.weight_of(_node(1, seconds=80_000)) > weights.weight_of(_node(0, seconds=13))
    assert weights.weight_of(_node()) == weights.BASE - 22
    assert weights.weight_of(compile_plan(submission()).nodes[-1]) == weights.BASE


@pytest.mark.parametrize("value", [-(2**40), 0, 2**31, 2**60])
def test_a_weight_fits_airflow_s_column(value: int) -> None:
    """Whatever a task carries, what Airflow gets is within 1 .. 2**31 - 1."""
    ti = SimpleNamespace(task=SimpleNamespace(priority_weight=value))
    assert 1 <= weights.ShortestJobFirst().get_weight(ti) <= 2**31 - 1


def test_extremes_stay_within_bounds() -> None:
    """The longest job of the lowest priority, the shortest of the highest."""
    assert weights.weight(-100, 1e9) >= 1
    assert weights.weight(100, 0.0) < 2**31
