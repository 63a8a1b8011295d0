"""What makes the difference, by hand: it adds up, and its interval is that of Student and Welch."""

from __future__ import annotations

import math

import pytest

from inferbench_tasks.analysis.stack.difference import BETWEEN, difference, ratio_of
from inferbench_tasks.analysis.stack.words import sentences
from tests.unit.analysis.stack.spans import layer, profile


def test_rows_add_up_to_the_difference() -> None:
    """A layer 70 us slower, one that is gone, one that is new, and 5 us more between: 90 us in all."""
    left = profile([[layer("c", "Conv", 100, (1, 8)), layer("p", "MaxPool", 20, (1, 4))]])
    right = profile(
        [[layer("c", "Conv", 170, (1, 8)), layer("s", "Softmax", 35, (1, 4))]], label="b", between_us=[15]
    )
    found = difference(left, right)
    assert found.difference_ms == pytest.approx(0.090)
    assert sum(row.difference_ms for row in found.rows) == pytest.approx(found.difference_ms)
    assert [row.what for row in found.rows] == ["same", "only right", "only left", BETWEEN]
    assert [row.difference_ms for row in found.rows] == pytest.approx([0.070, 0.035, -0.020, 0.005])
    assert found.rows[0].ratio == pytest.approx(1.7)
    assert found.ratio == pytest.approx(220 / 130)
    table = found.as_rows()
    assert table[0]["share_ratio"] == pytest.approx(70 / 90) and table[0]["low"] is None


def test_the_interval_by_hand() -> None:
    """Logarithms 0 and 2 against 5 and 5: 4 apart, standard error 1, one degree of freedom: 12.706 to each side."""
    ratio, ci95 = ratio_of([1.0, math.e**2], [math.e**5, math.e**5])
    assert ratio == pytest.approx(math.e**4) and ci95 is not None
    assert math.log(ci95[0]) == pytest.approx(4 - 12.7062, abs=1e-3)
    assert math.log(ci95[1]) == pytest.approx(4 + 12.7062, abs=1e-3)


def test_where_there_is_no_interval() -> None:
    """Of one round, and of a time of 0, which has no ratio either."""
    ratio, ci95 = ratio_of([1.0], [2.0])
    assert ratio == pytest.approx(2.0) and ci95 is None
    assert ratio_of([0.0, 1.0], [2.0, 2.0]) == (None, None)
    assert ratio_of([], []) == (None, None)


def test_what_fusion_removed_is_named_first() -> None:
    """The activation that runs by itself is part of the row of its convolution."""
    left = profile([[layer("c", "Conv", 100, (1, 8)), layer("g", "Gemm", 10)]], label="fused")
    right = profile(
        [[layer("c", "Conv", 95, (1, 8)), layer("r", "Relu", 60, (1, 8)), layer("g", "Gemm", 12)]],
        label="plain",
    )
    found = difference(left, right)
    assert found.rows[0].right == ("c", "r") and found.rows[0].difference_ms == pytest.approx(0.055)
    words = sentences(found)
    assert "Most of it: c + r, which fused runs as one layer, c, +0.055 ms (96% of the difference)." in words
    assert "fused runs 1 layers less, in 1 fused ones." in words


def test_a_difference_within_the_interval_is_none() -> None:
    """Rounds that differ as much as the sides do: nothing is named as its maker."""
    left = profile([[layer("c", "Conv", 100)]], [[layer("c", "Conv", 140)]])
    right = profile([[layer("c", "Conv", 150)]], [[layer("c", "Conv", 110)]], label="b")
    words = sentences(difference(left, right))
    assert words[1].startswith("No difference is shown") and not any("Most of it" in each for each in words)
