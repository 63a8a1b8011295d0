"""Two variants on the same samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from inferbench_tasks.quality.paired import paired


def right(*counts: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples that both, only the first, only the second, neither answered right."""
    both, first, second, neither = counts
    one = np.array([True] * (both + first) + [False] * (second + neither))
    other = np.array([True] * both + [False] * first + [True] * second + [False] * neither)
    return one, other


def test_mcnemar_by_hand() -> None:
    """Nine samples lost and one gained: twice the binomial tail of 1 of 10, and 8 of 100 samples fewer."""
    pair = paired(*right(80, 9, 1, 10))
    assert (pair.only_first, pair.only_second) == (9, 1)
    assert pair.p_value == pytest.approx(2 * binom.cdf(1, 10, 0.5))
    assert pair.difference_ratio == pytest.approx(-0.08)
    assert pair.low < -0.08 < pair.high < 0


def test_equal_answers_are_no_difference() -> None:
    """Without a sample on which they differ p is 1, and the interval holds 0."""
    pair = paired(*right(50, 0, 0, 5))
    assert pair.p_value == 1.0
    assert pair.difference_ratio == 0 and pair.low < 0 < pair.high


def test_the_interval_holds_as_often_as_it_says() -> None:
    """Of 2,000 drawn comparisons about 95% hold the true difference."""
    rng = np.random.default_rng(3)
    shares = np.array([0.85, 0.06, 0.03, 0.06])
    held = 0
    for counts in rng.multinomial(400, shares, size=2000):
        pair = paired(*right(*counts.tolist()))
        held += pair.low <= -0.03 <= pair.high
    assert 0.935 <= held / 2000 <= 0.975


def test_others_samples_are_no_pairs() -> None:
    """Runs over different numbers of samples are not compared."""
    with pytest.raises(ValueError, match="no pairs"):
        paired(np.ones(3, dtype=bool), np.ones(4, dtype=bool))
