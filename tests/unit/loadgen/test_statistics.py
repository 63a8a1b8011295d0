"""Percentiles are samples or absent; intervals say how they were got, and hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from inferbench_tasks.loadgen.statistics import (
    FLOORS,
    NAMES,
    autocorrelation_time,
    clustered_intervals,
    floor,
    intervals,
    order_statistics_interval,
    percentiles,
)


def _queue(count: int, load: float, rng: np.random.Generator) -> NDArray[np.float64]:
    """Sojourn times of an M/M/1 queue in equilibrium: exponential with mean 1 / (1 - load), correlated."""
    gaps, service = rng.exponential(1 / load, count), rng.exponential(1.0, count)
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - gaps[1:])])
    start = rng.exponential(1 / (1 - load)) * (rng.uniform() < load)
    # Lindley's recursion, unrolled: the waiting time is the walk above its running minimum.
    return np.asarray(walk - np.minimum(np.minimum.accumulate(walk), -start) + service)


def test_the_floors_are_loadgens() -> None:
    """p50 11, p90 64, p95 130, p99 662, p99.9 6,636: one outlier allowed at 99% confidence."""
    assert {q: floor(q) for q in FLOORS} == {0.5: 11, 0.9: 64, 0.95: 130, 0.99: 662, 0.999: 6636} == FLOORS


@pytest.mark.parametrize(("quantile", "needed"), FLOORS.items())
def test_a_percentile_below_its_floor_is_none(quantile: float, needed: int) -> None:
    """One sample makes the difference; the other percentiles don't change it."""
    assert percentiles(np.arange(needed - 1))[quantile] is None
    assert percentiles(np.arange(needed))[quantile] is not None
    assert percentiles(np.array([]))[quantile] is None


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.integers(-(10**15), 10**15), min_size=11, max_size=900))
def test_a_percentile_is_the_smallest_sample_with_enough_at_or_below_it(values: list[int]) -> None:
    """The definition itself, against numpy's."""
    for quantile, value in percentiles(values).items():
        if value is None:
            assert len(values) < FLOORS[quantile]
            continue
        array = np.array(values)
        assert value in values
        assert np.mean(array <= value) >= quantile - 1e-12
        assert np.mean(array < value) < quantile


def test_the_interval_of_independent_values_covers_their_percentile() -> None:
    """95% intervals from order statistics cover the true percentile in 93% to 99% of 400 draws."""
    rng = np.random.default_rng(1)
    draws = [np.sort(rng.exponential(1.0, 1500)) for _ in range(400)]
    for quantile in (0.5, 0.9, 0.99):
        truth = -np.log(1 - quantile)
        bounds = [order_statistics_interval(values, quantile) for values in draws]
        covered = np.mean([low <= truth <= high for low, high in (f for f in bounds if f)])
        assert all(bounds)
        assert 0.93 <= covered <= 0.99
    assert order_statistics_interval(np.arange(100.0), 0.99) is None


def test_intervals_of_correlated_latencies_are_judged_by_their_exceedances() -> None:
    """Behind a queue they cover the truth in most draws, where independence would be right in few."""
    rng = np.random.default_rng(2)
    load, hits, naive, nulls, tries = 0.6, 0, 0, 0, 100
    truth = -np.log(0.1) / (1 - load)
    for _ in range(tries):
        values = _queue(8000, load, rng)
        result = intervals(values)
        assert result.method == "exceedances"
        bound = result.bounds["p90"]
        nulls += bound is None
        hits += bound is not None and bound[0] <= truth <= bound[1]
        plain = order_statistics_interval(np.sort(values), 0.9)
        assert plain is not None
        naive += plain[0] <= truth <= plain[1]
    assert hits >= 0.9 * tries
    assert nulls <= 2
    assert naive <= 0.6 * tries


def test_a_tail_of_a_few_episodes_has_no_interval() -> None:
    """Where all samples above a percentile lie in a few blocks, their luck is not bounded by them."""
    values = np.random.default_rng(3).normal(10, 1, 20_000)
    values[5000:5100] += 100
    values[12_000:12_100] += 100
    result = intervals(np.repeat(values, 3))
    assert result.method == "exceedances"
    assert result.bounds["p99"] is None
    assert result.bounds["p50"] is not None


def test_too_strong_a_correlation_has_no_interval_at_all() -> None:
    """A drift over the whole run leaves nothing to tell chance by."""
    result = intervals(np.linspace(1, 2, 5000))
    assert result.method == "exceedances"
    assert set(result.bounds.values()) == {None}


def test_the_autocorrelation_time_of_known_processes() -> None:
    """1 for independent values and constants; (1 + r) / (1 - r) for an autoregression, 19 at r = 0.9."""
    rng = np.random.default_rng(4)
    assert autocorrelation_time(rng.exponential(1, 50_000)) < 1.2
    assert autocorrelation_time(np.ones(1000)) == 1.0
    noise, series = rng.normal(size=100_000), np.empty(100_000)
    series[0] = noise[0]
    for index in range(1, len(series)):
        series[index] = 0.9 * series[index - 1] + noise[index]
    assert autocorrelation_time(series) == pytest.approx(19, rel=0.25)


def test_the_same_values_give_the_same_intervals() -> None:
    """A summary that is derived again is the same."""
    values = _queue(5000, 0.7, np.random.default_rng(5))
    assert intervals(values) == intervals(values.copy())


@pytest.mark.parametrize("count", [0, 1, 2, 10])
def test_few_values_have_few_bounds(count: int) -> None:
    """No crash and no bound without samples; from two on the mean has one."""
    result = intervals(np.arange(count, dtype=float))
    assert set(result.bounds) == {"mean", *NAMES.values()}
    assert (result.bounds["mean"] is not None) == (count >= 2)
    assert result.bounds["p99"] is None


def _clustered(rng: np.random.Generator, requests: int, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Gaps of requests of 8 to 63 chunks: each request at a pace of its own, or one in five with stalls."""
    sizes = rng.integers(8, 64, requests)
    pace = rng.lognormal(2.3, 0.4, requests) if kind == "paces" else np.full(requests, 10.0)
    row = np.repeat(np.arange(requests), sizes)
    values = pace[row] * rng.gamma(20, 1 / 20, len(row))
    if kind == "stalls":
        values += 100 * (rng.random(len(row)) < np.where(rng.random(requests) < 0.2, 0.2, 0.0)[row])
    return values, np.concatenate([[0], np.cumsum(sizes)[:-1]])


@pytest.mark.parametrize("kind", ["paces", "stalls"])
def test_intervals_of_clustered_gaps_cover_the_truth(kind: str) -> None:
    """120 loads of 200 requests: nine of ten intervals of each figure have the truth at least, where 3.5 standard
    errors below 95% are 88%; intervals of independent gaps miss it much more often for one of the figures."""
    rng = np.random.default_rng(7)
    whole, _ = _clustered(rng, 60_000, kind)
    truth = {"mean": whole.mean()} | {
        name: float(np.quantile(whole, q, method="inverted_cdf")) for name, q in (("p50", 0.5), ("p90", 0.9))
    }
    ours, theirs, known = (dict.fromkeys(truth, 0) for _ in range(3))
    for _ in range(120):
        values, starts = _clustered(rng, 200, kind)
        bounds = clustered_intervals(values, starts).bounds
        shuffled = intervals(rng.permutation(values)).bounds
        for name, value in truth.items():
            if (own := bounds[name]) is not None:
                known[name] += 1
                ours[name] += own[0] <= value <= own[1]
            other = shuffled[name]
            theirs[name] += other is not None and other[0] <= value <= other[1]
    assert min(known.values()) >= 60
    assert all(ours[name] / known[name] >= 0.88 for name in truth), (ours, known)
    assert min(theirs.values()) / 120 < 0.85, theirs


def test_few_clusters_beyond_a_percentile_bound_nothing() -> None:
    """A p99 whose exceedances come from one request of forty is that request's."""
    values, starts = np.ones(40 * 50), np.arange(40) * 50
    values[-50:] = np.arange(50) + 10.0
    found = clustered_intervals(values, starts)
    assert found.bounds["p99"] is None and "few" in found.reasons["p99"]
