"""Times of a model at some batch sizes."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.brick_jobs.under_load.distribution import Distribution
from inferbench_tasks.brick_jobs.under_load.services import ALIKE, Services, spread_of
from tests.unit.bricks.builders import result

MS = 1e6


@pytest.mark.parametrize("low_ms", [-0.2, 0.0, 1e-9, 0.4])
def test_how_far_a_model_may_be_off_is_by_the_upper_end(low_ms: float) -> None:
    """1 ms, 2.2 at most: its 95% are a factor of 2.2, however near to 0 or below it the lower end is."""
    one = Services({1: MS}, {1: (low_ms * MS, 2.2 * MS)}, ALIKE)
    assert np.exp(1.959964 * one.log_spread()) == pytest.approx(2.2)


def test_a_model_that_may_be_faster_alone_is_as_far_off() -> None:
    """1 ms, 1.05 at most and 0.4 at least: a factor of 1.6 and not of 1.05, or its capacity were said too surely."""
    one = Services({1: MS, 8: MS}, {1: (0.4 * MS, 1.05 * MS), 8: (0.9 * MS, 1.1 * MS)}, ALIKE)
    assert np.exp(1.959964 * one.log_spread()) == pytest.approx(1.6)


def test_the_mean_of_runs_is_exact() -> None:
    """That of 100,000 drawn ones: a run in two hundred takes five times as long."""
    one = Services({1: MS}, {1: (MS, MS)}, Distribution.of([*np.ones(199), 5.0]))
    service, rng = one.service(2.0, 0.5 * MS), np.random.default_rng(1)
    drawn = np.mean([service(1, rng) for _ in range(100_000)])
    assert one.run_ns(1, 2.0, 0.5 * MS) == pytest.approx(2.54 * MS) == pytest.approx(drawn, rel=0.01)


@pytest.mark.parametrize("runs", [300, 3000])
def test_one_slow_run_of_many_stays_as_rare_as_it_was(runs: int) -> None:
    """Of three rounds, ten times as long: in the mean by its share, and hardly drawn more often."""
    times = np.full(runs, 1000)
    times[7] = 10_000
    rounds = tuple(tuple(map(int, part)) for part in np.split(times, 3))
    parts = {name: result(name, 1e6, 3e6).model_copy(update={"raw_ns": {"warm": rounds}}) for name in "ab"}
    found, rng = spread_of("ab", parts), np.random.default_rng(0)
    drawn = np.array([found.draw(rng) for _ in range(500_000)])
    assert found.mean == pytest.approx(1 + 9 / runs) == pytest.approx(drawn.mean(), rel=0.01)
    assert (drawn > 2).mean() == pytest.approx(1 / runs, rel=0.5)
    assert spread_of("c", parts) == ALIKE
