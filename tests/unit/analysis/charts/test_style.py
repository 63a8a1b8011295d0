"""Axes show numbers, whatever the values are."""

from __future__ import annotations

import itertools

import pytest

from inferbench_tasks.analysis.charts.style import LOG_TICKS, axis, bound, chart, close_ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (216, 432, [200, 250, 300, 350, 400, 450]),
        (6, 9.9, [6, 7, 8, 9, 10]),
        (99, 101, [99, 99.5, 100, 100.5, 101]),
        (216, 216, [215, 220]),
    ],
)
def test_values_between_two_ticks_of_a_logarithm_have_closer_ones(
    low: float, high: float, ticks: list[float]
) -> None:
    """Round numbers, and at least two around every value."""
    assert close_ticks(low, high) == pytest.approx(ticks)
    drawn = chart(
        [{"x": [1, 2], "y": [low, high, None, 0]}], title="", xaxis=axis("x"), yaxis=axis("y", log=True)
    )
    assert drawn["layout"]["yaxis"]["tickvals"] == pytest.approx(ticks)
    assert len(drawn["layout"]["yaxis"]["ticktext"]) == len(ticks)


def test_a_bound_is_on_the_axis_that_the_ticks_are_of() -> None:
    """42.9 to 43.2 ms below a bound of 70: ticks every 0.05 ms would lie on each other."""
    drawn = chart(
        [{"x": [20, 30], "y": [42.9, 43.2]}], title="", xaxis=axis("x"), yaxis=axis("y", log=True),
        shapes=[bound(70.0, "SLO", along="y"), bound(25.0, "knee")],
    )  # fmt: skip
    ticks = drawn["layout"]["yaxis"]["tickvals"]
    assert ticks[0] <= 42.9 and ticks[-1] >= 70 and min(b - a for a, b in itertools.pairwise(ticks)) >= 5


def test_any_two_values_have_two_ticks_around_them() -> None:
    """From a millionth to a million; what is further apart has two of the usual ones."""
    for power, share in itertools.product(range(-6, 7), (1.0, 1.001, 1.05, 1.3, 2.0, 3.0)):
        low = 1.7 * 10.0**power
        ticks = close_ticks(low, low * share)
        assert 2 <= len(ticks) <= 8 and ticks[0] <= low * 1.0000001 and ticks[-1] >= low * share * 0.9999999


def test_wide_axes_keep_the_usual_ticks() -> None:
    """1, 2 and 5 of each decade."""
    for values in ([1, 2], [3, 300], []):
        drawn = chart([{"y": values}], title="", xaxis=axis("x"), yaxis=axis("y", log=True))
        assert drawn["layout"]["yaxis"]["tickvals"] is LOG_TICKS
