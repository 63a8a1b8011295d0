"""Round trips of a link: the percentiles that so many of them tell."""

from __future__ import annotations

import numpy as np
import pytest

from inferbench_tasks.contracts.link import LEAST, RoundTrips


@pytest.mark.parametrize("count", [662, 700, 1001])
def test_percentiles_are_those_of_what_was_measured(count: int) -> None:
    """Each is one of the round trips, by the same rule as the percentiles of latencies."""
    times_ns = np.random.default_rng(count).exponential(2e6, count).astype(int)
    trips = RoundTrips.of([int(value) for value in times_ns])
    for name, quantile in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99)):
        assert getattr(trips, name) == np.quantile(times_ns, quantile, method="inverted_cdf") / 1e6
    assert (trips.count, trips.min_ms, trips.max_ms) == (count, times_ns.min() / 1e6, times_ns.max() / 1e6)


@pytest.mark.parametrize("name", sorted(LEAST))
def test_too_few_round_trips_tell_no_percentile(name: str) -> None:
    """At the floor it is there, one below it is not; a single one has its least and most."""
    assert getattr(RoundTrips.of([1] * LEAST[name]), name) == 1e-6
    assert getattr(RoundTrips.of([1] * (LEAST[name] - 1)), name) is None
    assert RoundTrips.of([3_000_000]).max_ms == 3.0


def test_the_floors_are_those_of_latencies() -> None:
    """A p99 of round trips means as much as one of requests."""
    from inferbench_tasks.loadgen.statistics import FLOORS, NAMES

    assert {f"{NAMES[q]}_ms": count for q, count in FLOORS.items() if f"{NAMES[q]}_ms" in LEAST} == LEAST
