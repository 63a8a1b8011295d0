"""Intervals of rank correlations: by hand, and as often right as they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.neighbours import Neighbours
from inferbench_tasks.quality.rank_interval import influences, of_ranks
from inferbench_tasks.quality.ranks import spearman


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
    (5/6 + 3/6 + 1/12) / 3; of the second 15/36 + (3/6 + 5/12) / 3 + (3/12) / 3, and of the third the same. The
    variance of 1, 3, 5 sixths is 2/27.
    """
    found = influences(np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0]))
    first, second = 1 / 36 + 2 * (17 / 12) / 3, 15 / 36 + (11 / 12) / 3 + (3 / 12) / 3
    mean = (first + 2 * second) / 3
    assert found.sum() == pytest.approx(0)
    assert found.tolist() == pytest.approx([27 / 2 * (each - mean) for each in (first, second, second)])


def test_influences_of_tied_pairs_by_hand() -> None:
    """0, 0, 1, 1 against 0, 1, 0, 1: shares 1/4 and 3/4, variances 1/16, rho 0. At larger u, and half at the same, is
    v of 3/8 beside a 0 and of 1/8 beside a 1. Of (0, 0) 1/16 + 3/8 + 3/8, of (0, 1) 3/16 + 3/8 + 1/8: 1/16 more and
    less than their mean 3/4, so the error of rho is sqrt(4) / 4, that of a phi coefficient of four pairs.
    """
    found = influences(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 1.0]))
    assert found.tolist() == pytest.approx([1, -1, -1, 1])


@pytest.mark.parametrize("levels", [2, 3, 12])
def test_an_influence_is_what_one_more_such_pair_adds(levels: int) -> None:
    """To 12 pairs that are there 2,000 times each: the change of rho, by the number of all. Tied or not."""
    rng = np.random.default_rng(4)
    one = np.floor(rng.permutation(12) * levels / 12)
    other = one + rng.normal(size=12) * levels / 3
    many = np.tile(one, 2000), np.tile(other, 2000)
    rho = spearman(*many)
    added = [
        (spearman(np.append(many[0], x), np.append(many[1], y)) - rho) * (len(many[0]) + 1)
        for x, y in zip(one, other, strict=True)
    ]
    assert influences(one, other).tolist() == pytest.approx(added, abs=0.01)


def test_the_order_of_samples_does_not_matter() -> None:
    """Of tied values neither: it made the error of two classes against scores depend on which came first."""
    rng = np.random.default_rng(3)
    one = np.repeat([0.0, 1.0], 20)
    other = np.round(one + rng.normal(size=40), 1)
    told = of_ranks(one, other)
    assert told.low is not None and told.high is not None
    for order in (np.arange(40)[::-1], rng.permutation(40)):
        found = of_ranks(one[order], other[order])
        assert (found.low, found.high) == pytest.approx((told.low, told.high), abs=1e-9)


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
        other = rho * one + math.sqrt(1 - rho**2) * other
        if noise == "of two classes":
            one = np.where(one > 0.5, 1.0, 0.0)
        return one, other

    truth = of_ranks(*sample(200_000)).value
    found = [of_ranks(*sample(pairs)) for _ in range(draws)]
    return float(np.mean([(one.low or -1) <= truth <= (one.high or 1) for one in found]))


@pytest.mark.parametrize(("pairs", "rho"), [(10, 0.0), (25, 0.5), (50, 0.95)])
def test_intervals_of_normal_pairs_are_as_often_right_as_they_say(pairs: int, rho: float) -> None:
    """95% within three standard errors of 300 draws below, 99% above: few pairs have a little more."""
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / 300) <= held(pairs, "normal", rho) <= 0.99


@pytest.mark.parametrize(("pairs", "rho"), [(40, 0.0), (40, 0.6)])
def test_intervals_of_two_classes_are_as_often_right_as_they_say(pairs: int, rho: float) -> None:
    """31% of one class against scores, with no tie among these."""
    assert 0.95 - 3 * math.sqrt(0.95 * 0.05 / 300) <= held(pairs, "of two classes", rho) <= 0.99


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
