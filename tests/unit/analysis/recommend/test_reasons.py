"""Why a configuration is recommended: every number of the sentence by hand."""

from __future__ import annotations

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.recommender import choose
from tests.unit.analysis.recommend.test_recommender import P99, run

BY = "throughput_samples_per_s"


def test_place_lead_and_room_are_told() -> None:
    """150 against 90: ln(150/90) +- t(0.975; 6) x 0.05 x sqrt 2 = 0.511 +- 0.173, so 1.40 to 1.98 times; 20 ms is 80%
    below 100 ms. The one with 130 ms is out.
    """
    first, second = choose([run(1, 150, 20), run(2, 90, 40), run(4, 200, 130)], BY, [P99]).top
    assert first["why"] == (
        f"2 of 3 configurations keep p99_ms ≤ 100; it is the best of them by {BY}. Its {BY} 150 is 1.67 times the "
        "next one's 90 (95%: 1.4 to 1.98); it is better with probability over 99%. Its p99_ms is 20, 80% below the "
        "bound of 100."
    )
    assert second["why"] == (
        f"2 of 3 configurations keep p99_ms ≤ 100; it is the second best of them by {BY}. Its p99_ms is 40, 60% below "
        "the bound of 100."
    )


def test_a_lead_within_noise_is_called_that() -> None:
    """100 against 95: 0.0513 +- 0.173, so 0.885 to 1.25 times, and t = 0.725 with 6 degrees of freedom: 75%."""
    words = choose([run(1, 100, 20), run(2, 95, 20)], BY, []).top[0]["why"]
    assert words == (
        f"2 of 2 configurations have {BY}; it is the best of them by {BY}. Its {BY} 100 is 1.05 times the next one's "
        "95 (95%: 0.885 to 1.25); it is better with probability 75%, so the difference may be noise."
    )


def test_the_room_is_that_of_the_worst_run() -> None:
    """Runs of 50, 60 and 90 ms: 10% below 100 ms, although their mean is a third below; one that is all there is."""
    runs = [run(1, 100, p99, i) for i, p99 in enumerate((50, 60, 90))]
    (row,) = choose(runs, BY, [P99]).top
    assert row["why"] == (
        "Of 1 configuration(s) it alone keeps p99_ms ≤ 100. Its p99_ms is 90 in the worst of its 3 runs, 10% below "
        "the bound of 100."
    )


def test_room_to_a_lower_bound_to_none_and_far_above() -> None:
    """60 is 20% above 50; 50 is at it; 150 is 3 times as much."""
    least = Bound("throughput_rps", False, 50.0)
    for throughput, words in (
        (60, "20% above the bound of 50."),
        (50, "just at the bound of 50."),
        (150, "3 times the"),
    ):
        (row,) = choose([run(1, throughput, 20)], BY, [least]).top
        assert f"Its throughput_rps is {throughput}, {words}" in row["why"]


def test_the_rows_of_a_trade_off_say_what_they_are() -> None:
    """One is faster and less accurate: the second row is no second best, but the best of those more accurate."""
    fast, right = run(1, 150, 20), run(2, 90, 20)
    fast["summary"]["accuracy_ratio"], right["summary"]["accuracy_ratio"] = 0.90, 0.97
    first, second = choose([fast, right], BY, []).top
    assert f"it is the best of them by {BY}" in first["why"]
    assert f"it is the best by {BY} of those that are more accurate than the row above." in second["why"]
