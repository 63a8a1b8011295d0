"""Which times are added up, by what is known of other models."""

from __future__ import annotations

import math

import pytest

from inferbench_tasks.brick_jobs.cache_states import nearest_state


def off(warm: float, streamed: float) -> dict[str, float]:
    """Measured over sums."""
    return {"warm": math.log(warm), "streamed": math.log(streamed)}


def test_the_state_is_taken_that_was_off_by_less() -> None:
    """5% against 2% in the median, whichever way, and however far off one of them is."""
    others = [(1.0, off(1.05, 0.98)), (2.0, off(1.05, 1.02)), (0.5, off(1.06, 0.3))]
    assert nearest_state(1.0, others) == "streamed"
    assert nearest_state(1.0, [(ns, off(1 / 1.01, 0.9)) for ns in (1.0, 2.0, 3.0)]) == "warm"
    assert nearest_state(1.0, [(1.0, off(1.1, 1.1))] * 3) == "warm"


@pytest.mark.parametrize(
    ("sum_ns", "state"), [(10.0, "streamed"), (10.1, "warm"), (0.1, "streamed"), (0.09, "warm")]
)
def test_models_of_another_size_decide_nothing(sum_ns: float, state: str) -> None:
    """Ten times as long or short at most: of a tiny model large ones say nothing. Two are too few."""
    large = off(1.05, 1.0)
    assert nearest_state(1.0, [(1.0, large), (1.0, large), (sum_ns, large)]) == state
    assert nearest_state(1.0, []) == nearest_state(1.0, [(1.0, large)] * 2) == "warm"
