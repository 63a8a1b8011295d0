"""The paired bootstrap: no difference where there is none, and the error of a mean where that is known."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.quality.paired_bootstrap import paired_bootstrap


def test_the_interval_is_that_of_a_mean_of_differences() -> None:
    """Of 400 differences with a known spread: 1.96 standard errors on each side, within a tenth."""
    rng = np.random.default_rng(1)
    one, apart = rng.normal(size=400), rng.normal(0.2, 1.0, 400)
    other = one + apart
    found = paired_bootstrap(400, lambda rows: (float(one[rows].mean()), float(other[rows].mean())))
    half = 1.96 * apart.std() / 20
    assert found.value == pytest.approx(apart.mean())
    assert found.low == pytest.approx(found.value - half, abs=half / 10)
    assert found.high == pytest.approx(found.value + half, abs=half / 10)
    assert found.p_value < 0.01


def test_equal_variants_do_not_differ() -> None:
    """The same answers give 0 without an interval, and p = 1."""
    found = paired_bootstrap(50, lambda rows: (float(rows.mean()), float(rows.mean())))
    assert (found.value, found.low, found.high, found.p_value) == (0.0, None, None, 1.0)


def test_too_few_samples_are_refused() -> None:
    """Of nine samples resamples say nothing."""
    with pytest.raises(ValueError, match="too few"):
        paired_bootstrap(9, lambda rows: (0.0, 1.0))
