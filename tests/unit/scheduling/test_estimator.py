"""The estimates of run times."""

from __future__ import annotations

import math

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.scheduling.estimator import UNKNOWN_S, Estimator, hard_limit_s


def test_a_declaration_is_believed_at_first() -> None:
    """Without any run the estimate is what was declared."""
    assert Estimator().estimate_s("a", 120.0) == pytest.approx(120.0)


def test_a_declaration_weighs_as_two_runs() -> None:
    """After one run of 100 s a declaration of 800 s gives the log-mean with weights 2 and 1."""
    estimator = Estimator()
    estimator.observe("a", 100.0)
    assert estimator.estimate_s("a", 800.0) == pytest.approx(
        math.exp((2 * math.log(800) + math.log(100)) / 3)
    )


def test_the_history_is_smoothed_in_log_space() -> None:
    """A second run moves the history by .3 of the way."""
    estimator = Estimator()
    estimator.observe("a", 100.0)
    estimator.observe("a", 1000.0)
    assert estimator.estimate_s("a") == pytest.approx(100.0 * 10**0.3)


def test_a_bias_of_all_declarations_is_corrected() -> None:
    """If all runs take twice what was declared, a new spec's declaration is nearly doubled."""
    estimator = Estimator()
    for i in range(200):
        estimator.observe(f"spec-{i}", 200.0, declared_s=100.0)
    assert estimator.estimate_s("new", 100.0) == pytest.approx(200.0, rel=0.02)


def test_without_a_declaration_the_mean_of_all_runs_serves() -> None:
    """And before any run a fixed guess."""
    estimator = Estimator()
    assert estimator.estimate_s("new") == UNKNOWN_S
    estimator.observe("a", 10.0)
    estimator.observe("b", 1000.0)
    assert estimator.estimate_s("new") == pytest.approx(100.0)


def test_the_limit_is_three_times_the_estimate_unless_given() -> None:
    """A submission may say otherwise, but not nonsense."""
    assert hard_limit_s(100.0) == 300.0
    assert hard_limit_s(100.0, 50.0) == 50.0
    with pytest.raises(InputError):
        hard_limit_s(100.0, -1.0)


def test_a_spec_is_known_from_its_first_run() -> None:
    """And no other by it."""
    estimator = Estimator()
    estimator.observe("a", 10.0)
    assert estimator.knows("a") and not estimator.knows("b")
