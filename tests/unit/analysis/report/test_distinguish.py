"""A percentile is called the lowest only where its interval says so; else it is said what would settle it."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.distinguish import interval, settling
from inferbench_tasks.analysis.report.judged import JudgedRuns
from inferbench_tasks.analysis.report.runs import RunView
from tests.unit.analysis.builders import named, records, view


def runs(first_ms: float, second_ms: float, noise: float, p99_ms: float = 20.0) -> list[RunView]:
    """Two runs at the same rate; the first needs half of the CPU. ``p99_ms``: the objective of both."""
    slo = {"p99_ms": p99_ms}
    return named(
        view(records(first_ms, noise=noise, seed=2), "r.000", cpu_cores=0.2, job={"slo": slo}),
        view(
            records(second_ms, noise=noise, seed=3),
            "r.001",
            cpu_cores=0.4,
            job={"serve__threads": 2, "slo": slo},
        ),
    )


def test_a_clear_difference_is_called_the_lowest_with_its_interval() -> None:
    """5 ms against 9 ms of latency that hardly varies."""
    advice = advise(runs(5.0, 9.0, 0.05))
    assert "It also has the lowest p99, 5." in advice.text and " to 5." in advice.text


def test_overlapping_intervals_are_not_distinguishable_and_the_runs_that_settle_it_are_named() -> None:
    """A sixth apart with wide tails: both intervals are told, and so much longer runs of both are asked for."""
    a, b = runs(5.0, 5.9, 0.5, p99_ms=40.0)
    first, second = interval(a, "p99"), interval(b, "p99")
    assert first and second and first[1] > second[0]
    text = advise([a, b]).text
    assert "lowest p99" not in text
    assert "is not distinguishable from" in text and f"({second[0]:.3g} to {second[1]:.3g})" in text
    assert " s of each would settle it" in text


def test_the_longer_runs_that_are_asked_for_are_long_enough() -> None:
    """Measured so long, both runs' intervals don't overlap any more; a fifth of it would not do."""
    a, b = runs(5.0, 5.9, 0.5)
    seconds = float(
        settling(a, b, "p99", JudgedRuns([a, b])).split(" s of each")[0].rpartition(" ")[2].replace(",", "")
    )
    assert seconds > 8
    for factor, apart in ((1.3, True), (0.2, False)):
        longer = [
            view(records(ms, noise=0.5, seed=seed, seconds=factor * seconds), seconds=factor * seconds)
            for ms, seed in ((5.0, 5), (5.9, 6))
        ]
        first, second = (interval(one, "p99") for one in longer)
        assert (first and second) or not apart  # so few requests have no interval at all
        assert bool(first and second and first[1] < second[0]) is apart


@pytest.mark.parametrize(
    ("second_ms", "proposal"), [(5.2, "several runs of each"), (5.1, "more than 20 runs of each")]
)
def test_less_than_a_machines_drift_asks_for_more_runs_not_longer_ones(
    second_ms: float, proposal: str
) -> None:
    """4 and 2% apart with narrow intervals: one long run of each would prove nothing; so many of them might."""
    a, b = runs(5.0, second_ms, 0.01)
    text = settling(a, b, "p99", JudgedRuns([a, b]))
    assert f"within a machine's drift from run to run: {proposal}" in text


@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_twins_are_nobodys_winner(noise: float) -> None:
    """The same figures twice: never the lowest."""
    assert "lowest p99," not in advise(runs(5.0, 5.0, noise)).text


def test_a_run_that_is_surely_slower_is_not_among_those_to_choose_freely_from() -> None:
    """Equal throughput and CPU, 3, 3 and 15 ms: the choice is between the first two; without intervals of
    these, nothing is surely higher."""
    views = named(
        *(
            view(
                records(ms, noise=0.05, seed=2 + seed),
                f"r.{seed}",
                cpu_cores=0.4,
                job={"serve__threads": threads},
            )
            for seed, (ms, threads) in enumerate([(3.0, 1), (3.0, 2), (15.0, 4)])
        )
    )
    text = advise(views).text
    assert "choose freely between threads 1 and threads 2." in text or (
        "choose freely between threads 2 and threads 1." in text
    )
    assert "Surely higher is the p99 of threads 4 " in text
    for run in views[:2]:
        run.summary["e2e_latency_ms"]["ci95"] = {}
    text = advise(views).text
    assert "choose freely" not in text and "Nothing tells the p99 of threads" in text
    assert "Surely higher" not in text


def test_item_23_without_intervals_no_run_is_called_the_lowest() -> None:
    """15.23: 3 ms beside 11 ms, with no interval of one of them: no claim, but what would settle it."""
    for without in (0, 1):
        pair = runs(3.0, 11.0, 0.05)
        pair[without].summary["e2e_latency_ms"]["ci95"] = {"p99": None}
        text = advise(pair).text
        assert "lowest p99" not in text and "is not distinguishable from" in text
        assert "There is no confidence interval of one of them" in text


def test_item_23_without_intervals_latency_decides_nothing() -> None:
    """15.23: equal throughput and CPU, 3 ms and 11 ms without intervals: neither is recommended by its latency."""
    pair = named(
        *(
            view(
                records(ms, noise=0.05, seed=2 + seed),
                f"r.{seed}",
                cpu_cores=0.4,
                job={"serve__threads": seed},
            )
            for seed, ms in ((1, 3.0), (2, 11.0))
        )
    )
    assert advise(pair).best is pair[0]
    for one in pair:
        one.summary["e2e_latency_ms"]["ci95"] = {}
    advice = advise(pair)
    assert advice.best is None and "Nothing tells the p99" in advice.text


def test_item_23_a_price_in_latency_is_named_only_where_intervals_say_so() -> None:
    """15.23: the frugal run is slower by its intervals; without them nobody says so."""
    pair = runs(11.0, 3.0, 0.05)
    assert "The price is latency" in advise(pair).text
    pair[0].summary["e2e_latency_ms"]["ci95"] = {}
    assert "The price is latency" not in advise(pair).text
