"""A table of a distribution against its values."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.brick_jobs.under_load.distribution import Distribution


@pytest.mark.parametrize("count", [1, 7, 810, 10_000])
def test_the_mean_is_that_of_the_values_however_many(count: int) -> None:
    """Of values over four powers of ten."""
    values = np.random.default_rng(count).lognormal(0, 2, count)
    assert Distribution.of(values).mean == pytest.approx(values.mean())


@pytest.mark.parametrize("percent", [25, 50, 95, 99, 99.5, 99.9])
def test_what_is_drawn_has_the_values_percentiles(percent: float) -> None:
    """Of 100,000 values, the slowest eight times the middle one, within 2%."""
    values = np.random.default_rng(1).lognormal(0, 0.5, 100_000)
    kept, rng = Distribution.of(values), np.random.default_rng(2)
    drawn = [kept.draw(rng) for _ in range(500_000)]
    assert np.percentile(drawn, percent) == pytest.approx(np.percentile(values, percent), rel=0.02)


def test_a_table_of_another_length_is_refused() -> None:
    """As another version kept it."""
    with pytest.raises(ValueError, match="201 means; a distribution has 285"):
        Distribution((1.0,) * 201)
