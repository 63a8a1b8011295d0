"""A percentile is worth as many samples as its own exceedances tell, and its interval holds what it promises."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.statistics.coverage import cover
from benchmarks.statistics.processes import PROCESSES
from inferbench_tasks.loadgen.exceedances import spread_of, spread_of_clusters
from inferbench_tasks.loadgen.statistics import intervals, order_statistics_interval


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("independent", ("p50", "p99")),
        ("stalls", ("p90", "p95", "p99")),
        ("Markov-modulated", ("p50", "p90", "p99")),
    ],
)
def test_intervals_cover_the_truth_in_clusters_too(title: str, names: tuple[str, ...]) -> None:
    """15.6: Of 40 runs of 50,000 requests at least 86% of the intervals hold, and nine runs in ten have one.

    95% of 40 less two and a half standard errors; the whole table is ``python -m benchmarks.statistics``.
    """
    cells = cover(PROCESSES[title], 50_000, runs=40, truth_values=4_000_000)
    for name in names:
        assert cells[name].null_ratio <= 0.1, name
        assert (cells[name].coverage or 0) >= 0.86, name


def test_stalls_are_seen_by_the_tail_that_they_make() -> None:
    """15.6: requests hardly resemble their neighbours, those above the p99 do: they are worth fewer, it is wider."""
    values = PROCESSES["stalls"](np.random.default_rng(7), 50_000)
    result = intervals(values)
    assert result.method == "exceedances"
    assert result.effective["p99"] < 0.5 * len(values)
    naive = order_statistics_interval(np.sort(values), 0.99)
    bound = result.bounds["p99"]
    assert naive is not None and bound is not None
    assert bound[1] - bound[0] > 1.5 * (naive[1] - naive[0])


def test_too_few_clusters_have_no_interval_and_say_so() -> None:
    """Five stalls can't bound the p99 that they make; a slow start can't bound any percentile it reaches."""
    few = intervals(PROCESSES["stalls"](np.random.default_rng(7), 5_000))
    assert few.bounds["p99"] is None
    assert "few" in few.reasons["p99"] or "clusters" in few.reasons["p99"]
    start = intervals(PROCESSES["slow start"](np.random.default_rng(7), 20_000))
    assert start.bounds["p99"] is None and start.bounds["p50"] is None
    assert set(start.reasons) >= {"p50", "p99"}


def test_the_spread_of_known_processes() -> None:
    """1 for independent values and constants, (1 + r) / (1 - r) for an autoregression; a drift has none."""
    rng = np.random.default_rng(4)
    assert spread_of(rng.normal(size=50_000)).independent
    assert spread_of(np.ones(1000)).independent
    noise, series = rng.normal(size=100_000), np.empty(100_000)
    series[0] = noise[0]
    for index in range(1, len(series)):
        series[index] = 0.9 * series[index - 1] + noise[index]
    assert spread_of(series).inflation == pytest.approx(19, rel=0.3)
    assert spread_of(np.linspace(0, 1, 5000)).reason is not None


def test_samples_that_alternate_are_worth_more_than_independent_ones() -> None:
    """Every tenth request slow, never two in a row: the number above the p90 hardly varies."""
    values = np.random.default_rng(5).normal(10, 0.1, 20_000)
    values[::10] += 5
    result = intervals(values)
    assert result.effective["p90"] > 5 * len(values)


def test_why_clusters_have_no_spread_is_told_apart() -> None:
    """47 clusters are too few; of 48 with nothing above the percentile the number of clusters is no reason."""
    rng = np.random.default_rng(4)
    starts = np.arange(48) * 10
    assert spread_of_clusters(rng.normal(size=470), starts[:47]).reason == "fewer than 48 clusters"
    flat = spread_of_clusters(np.zeros(480, bool), starts)
    assert flat.reason == "no value lies beyond it, or all are equal"
