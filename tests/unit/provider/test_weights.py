"""Shortest job first as Airflow's priority weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.provider import weights


def _job(priority: int = 0, seconds: float | None = None, duration: float = 10.0) -> dict[str, Any]:
    load = {"duration_s": duration, "warmup_s": 2.0}
    return {"priority": priority, "expected_duration_s": seconds, "load": load}


def test_shorter_is_heavier_and_priority_counts_more() -> None:
    """Length decides among equals, priority before that; a job that declares nothing counts by its load."""
    assert weights.weight_of(_job(seconds=5)) > weights.weight_of(_job(seconds=50))
    assert weights.weight_of(_job(1, seconds=80_000)) > weights.weight_of(_job(0, seconds=1))
    assert weights.weight_of(_job()) == weights.BASE - 22
    assert weights.weight_of(None) == weights.BASE


@pytest.mark.parametrize("value", [-(2**40), 0, 2**31, 2**60])
def test_a_weight_fits_airflow_s_column(value: int) -> None:
    """Whatever a task carries, what Airflow gets is within 1 .. 2**31 - 1."""
    ti = SimpleNamespace(task=SimpleNamespace(priority_weight=value))
    assert 1 <= weights.ShortestJobFirst().get_weight(ti) <= 2**31 - 1


def test_extremes_stay_within_bounds() -> None:
    """The longest job of the lowest priority, the shortest of the highest."""
    assert weights.weight(-100, 1e9) >= 1
    assert weights.weight(100, 0.0) < 2**31
