"""Intervals of rank correlations: by hand, and as often right as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.neighbours import Neighbours
from inferbench_tasks.quality.rank_interval import influences, of_ranks


def test_the_error_of_normal_pairs_by_hand() -> None:
    """Twelve values against the same with each two neighbours swapped: rho = 1 - 6 x 12 / (12 x 143) = 0.95804. On the
    scale of z 1.92152 +- 1.959964 sqrt((1 + 0.45892) / 9) = 0.78912, which is wider than the pairs' own error.
    """
    one = np.arange(12.0)
    other = one.reshape(6, 2)[:, ::-1].reshape(-1)
    found = of_ranks(one, other)
    assert found.value == pytest.approx(1 - 72 / 1716)
    assert (found.low, found.high) == pytest.approx(
        (math.tanh(1.92152 - 0.78912), math.tanh(1.92152 + 0.78912)), abs=1e-4
    )


def test_influences_by_hand() -> None:
    """Ranks 1, 2, 3 against 1, 3, 2: shares 1, 3, 5 and 1, 5, 3 sixths. Of the first pair 1/36 and twice
    (5/6 + 3/6 + 1/12) / 3; of the second 15/36 + (3/6 + 5/12) / 3 + (3/12) / 3, and of the third the same.
    """
    found = influences(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    first, second = 1 / 36 + 2 * (17 / 12) / 3, 15 / 36 + (11 / 12) / 3 + (3 / 12) / 3
    mean = (first + 2 * second) / 3
    assert found.sum() == pytest.approx(0)
    assert found.tolist() == pytest.approx([12 * (each - mean) for each in (first, second, second)])


def test_where_there_is_no_interval() -> None:
    """Nine pairs, all in one order, or in the reverse one."""
    nine, ten = np.arange(9.0), np.arange(10.0)
    assert of_ranks(nine, nine % 2).low is None
    for other, rho in ((ten**3, 1.0), (-ten, -1.0)):
        found = of_ranks(ten, other)
        assert found.value == pytest.approx(rho) and found.low is None and found.high is None


def held(pairs: int, noise: str, rho: float, draws: int = 300) -> float:
    """Of so many samples of pairs the share whose interval holds the true value."""
    rng = np.random.default_rng(2)

    def sample(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        one, other = (
            rng.standard_t(3, count) if noise == "heavy" else rng.normal(size=count) for _ in range(2)
        )
        return one, rho * one + math.sqrt(1 - rho**2) * other

    truth = of_ranks(*sample(200_000)).value
    found = [of_ranks(*sample(pairs)) for _ in range(draws)]
    return float(np.mean([(one.low or -1) <= truth <= (one.high or 1) for one in found]))


@pytest.mark.parametrize(("pairs", "rho"), [(10, 0.0), (25, 0.5), (50, 0.95)])
def test_intervals_of_normal_pairs_are_as_often_right_as_they_say(pairs: int, rho: float) -> None:
    """95% within three standard errors of 300 draws below, 99% above: few pairs have a little more."""
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / 300) <= held(pairs, "normal", rho) <= 0.99


def test_heavy_tails_are_not_taken_for_normal_pairs() -> None:
    """t with 3 degrees, 0.92 by ranks, 50 pairs: the error of normal pairs held the true value in 85%."""
    assert held(50, "heavy", 0.95) >= 0.88


def test_a_chain_of_neighbours_is_no_row_of_independent_pairs() -> None:
    """Vectors about one direction: each sample's closeness to it is in two cosines. The error counts both."""
    rng = np.random.default_rng(5)
    source = rng.normal(size=(40, 8)) + 4 * np.eye(8)[0]
    served = source + 0.5 * rng.normal(size=source.shape)
    found = Neighbours().of(Answered({"v": served}, {"v": source}, None, "vectors"))
    assert found.low is not None and found.high is not None and found.low < found.value < found.high
    one, other = np.repeat(rng.normal(size=(2, 20)), 2, axis=1)
    plain, chained = (of_ranks(one, other, chained=each) for each in (False, True))
    assert plain.low is not None and chained.low is not None and chained.low < plain.low
