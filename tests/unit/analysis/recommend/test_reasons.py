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
    assert (
        "is 1.67 times the next more accurate one's 90 (95%: 1.4 to 1.98); it is better by " in first["why"]
    )
    assert f"it is the best by {BY} of those that are more accurate than the row above." in second["why"]


def test_it_alone_keeps_the_bound_only_where_the_others_were_judged() -> None:
    """Of three one breaks it and one has no p99: that one may keep it, too. Without a bound it has none."""
    (row,) = choose([run(1, 100, 20), run(2, 90, None), run(4, 80, 130)], BY, [P99]).top
    assert row["why"].startswith(
        "Of 3 configurations it alone is known to keep p99_ms ≤ 100; 1 can't be judged. "
    )
    two = choose([run(1, 100, 20), run(2, 90, None), run(4, 80, 30)], BY, [P99]).top[0]
    assert two["why"].startswith(
        "2 of 3 configurations keep p99_ms ≤ 100 (1 can't be judged); it is the best of"
    )
    (row,) = choose([run(1, 100, 20), run(2, 90, None)], "p99_ms", []).top
    assert row["why"] == "Of 2 configuration(s) it alone has p99_ms."


def test_what_differs_does_not_read_alike() -> None:
    """99.96 ms is no 100, 999.7 no 1,000, 0.001 not 100% below 100, and 0.9996 of the answers not all of them."""
    for p99, limit, words in (
        (99.96, 100, "is 99.96, 0.04% below the bound of 100."),
        (999.7, 1000, "is 999.7, 0.03% below the bound of 1,000."),
        (0.001, 100, "is 0.001, 99.999% below the bound of 100."),
    ):
        (row,) = choose([run(1, 100, p99)], BY, [Bound("p99_ms", True, float(limit))]).top
        assert f"Its p99_ms {words}" in row["why"]
    right = run(1, 100, 20)
    right["summary"]["accuracy_ratio"] = 0.9996
    (row,) = choose([right], BY, [Bound("accuracy_ratio", False, 0.99)]).top
    assert "Its accuracy_ratio is 0.9996, 0.97% above the bound of 0.99." in row["why"]
    near = choose([run(1, 100.04, 20), run(2, 100, 20)], BY, []).top[0]["why"]
    assert f"Its {BY} 100.04 is 1.0004 times the next one's 100 (95%: 0.841 to 1.19)" in near


def test_a_difference_that_is_no_ratio_says_which_side_its_ends_are_on() -> None:
    """1 and 2 failures of 100: 0.01 less, +- t(0.975; 5.66) x 0.01969 = 2.483 x 0.01969 = 0.0489."""
    few, more = run(1, 100, 20), run(2, 100, 20)
    for document, share in ((few, 0.01), (more, 0.02)):
        document["summary"] |= {"requests": 100, "error_ratio": share}
    why = choose([few, more], "error_ratio", []).top[0]["why"]
    assert "Its error_ratio 0.01 is 0.01 below the next one's 0.02 (95%: 0.0389 above to 0.0589 below)" in why


def test_no_interval_begins_below_what_can_be() -> None:
    """Of 5 and 80 ms the mean's interval would begin far below 0 ms; a correlation's may be below 0."""
    (row,) = choose([run(1, 100, 5, 0), run(1, 100, 80, 1)], "p99_ms", []).top
    assert row["ci95"][0] == 0 and row["ci95"][1] > 80
    runs = [run(1, 100, 20, index) for index in range(2)]
    for document, value in zip(runs, (0.1, 0.5), strict=True):
        document["summary"]["quality"] = {"target_spearman": {"value": value}}
    (row,) = choose(runs, "target_spearman", []).top
    assert row["ci95"][0] < 0
