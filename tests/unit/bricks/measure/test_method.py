"""The trimmed mean, and how many runs a round has."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from inferbench_tasks.bricks.measure.method import Method, runs_problem, trimmed_mean


def test_a_fifth_is_taken_off_at_either_end() -> None:
    """Of 1 to 100 the mean of 21 to 80; of ten values two at either end, however far out they are."""
    assert trimmed_mean(range(1, 101)) == pytest.approx(50.5)
    assert trimmed_mean([*range(1, 81), *[1e9] * 20]) == pytest.approx(sum(range(21, 81)) / 60)
    assert trimmed_mean([1, 1, 1, 1, 1, 1, 1, 4, 30, 1000]) == pytest.approx(9 / 6)
    assert trimmed_mean([2.0, 4.0]) == 3.0


def test_of_nothing_there_is_no_mean() -> None:
    """ValueError, not NaN."""
    with pytest.raises(ValueError, match="no times"):
        trimmed_mean([])


def test_fewer_runs_are_no_answer_to_who_asks_for_more() -> None:
    """What was timed in fewer runs, fewer rounds or less time is timed again."""
    assert Method().covers(Method(runs=50)) and Method().covers(Method())
    for more in (Method(runs=200), Method(rounds=5), Method(budget_s=3)):
        assert not Method().covers(more) and more.covers(Method())
    assert Method().covers(Method(within_ratio=0.01)) and not Method(within_ratio=0.01).covers(Method())
    assert Method(within_ratio=0.01).covers(Method(within_ratio=0.02))
    with pytest.raises(ValidationError, match="less than or equal to 0.2"):
        Method(within_ratio=0.3)


def test_runs_are_shared_by_the_rounds() -> None:
    """100 in three rounds are 34 each; fewer than five in each of three are refused."""
    assert Method(runs=100, rounds=3, budget_s=1).runs_each == 34
    with pytest.raises(ValidationError, match="greater than or equal to 15"):
        Method(runs=14, rounds=3, budget_s=1)


def test_rounds_share_enough_runs() -> None:
    """Five in each: 100 in 20 rounds, and not in 21, where each would be four."""
    assert runs_problem(100, 20) is None and runs_problem(15, 3) is None
    assert "less than 5 in each" in str(runs_problem(100, 21)) and "at least 105" in str(
        runs_problem(100, 21)
    )
