"""What is missing, divided among shards."""

from __future__ import annotations

import pytest

from inferbench_tasks.brick_jobs.filling import fill, measuring_s
from inferbench_tasks.bricks.measure.method import Method


def test_the_longest_go_first() -> None:
    """7, 5, 4, 3, 1 s in two shards: 10 and 10, as longest-processing-time gives."""
    assert fill([3, 7, 1, 5, 4], shards=2, shard_s=10) == [0, 0, 1, 1, 1]


def test_no_more_shards_are_filled_than_the_work_needs() -> None:
    """The others stay empty, and take no device."""
    assert set(fill([1.0] * 12, shards=8, shard_s=5)) == {0, 1, 2}
    assert fill([], shards=8, shard_s=5) == []


def test_more_work_than_slots_is_shared() -> None:
    """Slots are fixed when the plan is made: a guess too low makes them longer, and loses nothing."""
    assert sorted(fill([1.0] * 10, shards=2, shard_s=1)) == [0] * 5 + [1] * 5


def test_slow_bricks_end_with_their_budget_or_five_runs() -> None:
    """A millisecond: 34 runs and three before them in each of three rounds. 100 ms: 2 s of runs, and one before them.
    Ten seconds: five runs and one before, whatever the budget. Loading takes 0.05 s, a sweep of the caches 1.5 ms."""
    method = Method(runs=100, rounds=3, budget_s=2.0)
    assert measuring_s(0.001, method, whole=True) == pytest.approx(0.05 + 3 * 0.037)
    assert measuring_s(0.001, method, whole=False) == pytest.approx(0.05 + 3 * (0.037 + 34 * 0.0025))
    assert measuring_s(0.1, method, whole=False) == pytest.approx(0.05 + 3 * (2.1 + 2))
    assert measuring_s(10.0, method, whole=True) == pytest.approx(0.05 + 3 * 60)
    assert measuring_s(10.0, method, whole=False) == pytest.approx(0.05 + 3 * (60 + 5 * 10.0015))
