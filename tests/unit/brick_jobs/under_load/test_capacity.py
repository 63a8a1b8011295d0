"""Capacities under an objective, against exact results of queues."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.arrivals.poisson import Poisson
from inferbench_tasks.brick_jobs.under_load import simulated
from inferbench_tasks.brick_jobs.under_load.capacity import (
    WITHIN_RATIO,
    Capacity,
    Search,
    at_rate,
    capacity,
)
from inferbench_tasks.brick_jobs.under_load.objective import LEAST_ERROR_RATIO, Objective
from inferbench_tasks.queueing.server import Batcher, Server, Service
from inferbench_tasks.queueing.simulate import open_loop
from inferbench_tasks.queueing.vectorised import Draws
from inferbench_tasks.submission.schema import LoadSpec

MS = 1e6


LONG_MS = 600_000.0


def load(**arrivals: Any) -> LoadSpec:
    arrivals = arrivals or {"kind": "poisson", "rate_rps": 10}
    return LoadSpec.model_validate({"arrivals": arrivals, "duration_s": 10, "warmup_s": 1})


def exponential(ms: float) -> Server:
    service: Service = lambda rows, rng: float(rng.exponential(ms * MS))  # noqa: E731
    return Server(service, mean_service_ns=lambda rows: ms * MS)


def m_m_1(p99_ms: float, off: float = 0.0) -> Capacity:
    """Of 1,000 per second; times within a share ``off``."""
    spec, objective = load(), Objective.of({"p99_ms": p99_ms}, LONG_MS)
    factors = (1 + off, 1 / (1 + off))
    return capacity(exponential, factors, spec, spec.arrivals, objective, 1)


def search(server: Server, p99_ms: float) -> Search:
    spec = load()
    return Search(server, spec, spec.arrivals, Objective.of({"p99_ms": p99_ms}, LONG_MS), (1,))


def test_of_random_services_it_is_the_known_one_and_so_are_the_ends() -> None:
    """M/M/1: p99 is ln(100) / (mu - lambda), so lambda is mu - 460.5 for 10 ms: 539.5 for services of 1 ms, from
    339.5 of 1.25 ms to 789.5 of 0.8 ms; the ends are as far off as paths differ, a tenth, the point is within."""
    found = m_m_1(10.0, off=0.25)
    assert found.rps == pytest.approx(1000 - math.log(100) / 0.010, rel=0.03) and found.fails_at_rps is None
    low, high = found.interval_rps
    assert low == pytest.approx(339.5, rel=0.1) and high == pytest.approx(789.5, rel=0.1)


def test_close_to_saturation_it_is_a_range_and_no_point() -> None:
    """p99 <= 200 ms holds up to 977 of 1,000 per second: between a rate below that and saturation, never above it."""
    found = m_m_1(200.0)
    assert found.rps is None and 900 < found.interval_rps[0] < 977
    assert found.interval_rps[1] == pytest.approx(1000)


def test_where_batches_wait_latencies_fall_with_the_rate_and_the_highest_rate_counts() -> None:
    """1 ms for up to 8 requests, who wait 20 ms for each other: 15 ms fail at 100 per second, hold at 4,000 and at the
    highest rate that is looked at; a lower one that fails is named."""
    one = search(Server(lambda rows, rng: MS, batcher=Batcher(8, 20_000_000)), 15.0)
    assert not one.holds(100) and one.holds(4000) and one.rps() == math.inf
    assert 4000 < one.highest_rps < 8000
    fails = one.fails_below(one.highest_rps)
    assert fails is not None and 100 < fails < 4000


def test_an_objective_below_one_service_holds_at_no_rate() -> None:
    """2.5 ms of a server that takes 5: 0."""
    assert search(Server(lambda rows, rng: 5 * MS), 2.5).rps() == 0


@pytest.mark.parametrize("near_rps", [None, 1.0, 400.0, 540.0, 1e9])
def test_where_the_search_begins_changes_nothing(near_rps: float | None) -> None:
    """The same rate, to the step; one step further it fails."""
    one = search(exponential(1.0), 10.0)
    found = one.rps(near_rps)
    assert found == one.rps() and one.holds(found)
    assert not one.holds(found * (1 + WITHIN_RATIO))


def test_far_above_the_bound_a_load_is_not_simulated_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ratio is infinite after a part of the requests; near the bound, and below it, it is the percentile's."""
    counts: list[int] = []

    def counted(server: Server, *arguments: Any) -> Any:
        outcome = open_loop(server, *arguments)
        counts.append(len(outcome.sent_ns))
        return outcome

    monkeypatch.setattr(simulated, "open_loop", counted)
    one = search(exponential(1.0), 10.0)
    assert one.ratio(900.0) == math.inf and one.ratio(500.0) == pytest.approx(math.log(100) / 5.0, rel=0.1)
    assert counts[0] < counts[1] / 3


def test_regular_arrivals_hold_up_to_saturation() -> None:
    """D/D/1: nobody waits below it, so that 6 ms of 5 hold at every rate that is looked at: beyond the highest."""
    spec = load(kind="constant", rate_rps=10)
    objective = Objective.of({"p99_ms": 6.0}, LONG_MS)
    one = Search(Server(lambda rows, rng: 5 * MS), spec, spec.arrivals, objective, (1,))
    assert one.rps() == math.inf and one.highest_rps == pytest.approx(198)


def test_arrivals_that_change_have_the_capacity_of_random_ones() -> None:
    """Those of a day and a night have no one rate: it is that of Poisson's, of so many requests as of any."""
    swing = load(kind="diurnal", rate_rps=10, amplitude_ratio=0.5, period_s=10).arrivals
    assert at_rate(swing, 7.0) == Poisson(kind="poisson", rate_rps=7.0)


def test_what_is_bounded_and_not_predicted_is_named() -> None:
    """An objective on energy changes no capacity silently; that so many may fail is part of it."""
    bounds = {"p99_ms": 100.0, "joule_per_request": 1.0, "error_ratio": 0.05}
    objective = Objective.of(bounds, 2000.0)
    assert objective.bounds == {"p99_ms": 100.0} and objective.left_out == ("joule_per_request",)
    assert objective.percentiles_ms == {99.0: 100.0, 95.0: 2000.0}
    assert str(objective) == "p99_ms <= 100, error_ratio <= 0.05 (timeout_ms 2000)"
    none = Objective.of({"error_ratio": 0.0}, 2000.0)
    assert str(none) == "error_ratio <= 0 (timeout_ms 2000, of 10,000 to 40,000 simulated requests)"


def within(timeout_ms: float, **bounds: float) -> Capacity:
    """Of an M/M/1 queue of 100 per second whose clients wait so long."""
    spec = load()
    draws = Draws(
        services=lambda rows, uniform: -10 * MS * np.log1p(-uniform),
        delays=lambda idle_ns, uniform: np.zeros(len(idle_ns)),
        waking=lambda idle_ns: np.zeros(len(idle_ns)),
    )
    server = replace(exponential(10.0), draws=draws)
    return capacity(
        lambda factor: server, (1.0, 1.0), spec, spec.arrivals, Objective.of(bounds, timeout_ms), 1
    )


@pytest.mark.parametrize("error_ratio", [0.01, 0.1])
def test_as_many_fail_as_the_timeout_makes_and_no_more_than_may(error_ratio: float) -> None:
    """M/M/1: a request takes longer than t with exp(-(mu - lambda) t), so that a share e fails at
    lambda = mu - ln(1/e) / t: of 100 per second, clients that wait 100 ms and e = 1% it is 53.9, of 10% 77.0."""
    exact = 100 - math.log(1 / error_ratio) / 0.1
    assert within(100.0, error_ratio=error_ratio).rps == pytest.approx(exact, rel=0.04)


@pytest.mark.parametrize("error_ratio", [1e-5, 1e-4, 0.99 * LEAST_ERROR_RATIO])
def test_a_share_that_the_requests_can_not_tell_has_a_bound_and_no_figure(error_ratio: float) -> None:
    """M/M/1 of 100 per second whose clients wait 400 ms: of 40,000 requests 0.4 are 1e-5, so that most paths have none
    at rates far above the exact 100 - ln(1e5) / 0.4 = 71.2. No rate is told, and the range holds the exact one.
    """
    found = within(400.0, error_ratio=error_ratio)
    assert (found.rps, found.least_error_ratio) == (None, 10 / 40_000)
    low, high = found.interval_rps
    assert low == 0 < 100 - math.log(1 / error_ratio) / 0.4 < high < 100
    assert high == within(400.0, error_ratio=LEAST_ERROR_RATIO).interval_rps[1]


@pytest.mark.parametrize("timeout_ms", [100.0, 200.0, 400.0])
def test_the_least_share_that_is_told_lies_in_its_interval(timeout_ms: float) -> None:
    """100 - ln(4,000) / timeout: 17.1, 58.5 and 79.3 of 100 per second."""
    found = within(timeout_ms, error_ratio=LEAST_ERROR_RATIO)
    exact = 100 - math.log(1 / LEAST_ERROR_RATIO) / (timeout_ms / 1000)
    assert found.rps is not None and found.least_error_ratio is None
    assert found.interval_rps[0] < exact < found.interval_rps[1]


def test_an_objective_that_holds_nowhere_has_a_capacity_of_0_however_few_may_fail() -> None:
    """Clients that wait a tenth of a service: nine of ten fail at every rate."""
    found = within(1.0, error_ratio=1e-6)
    assert found.rps == 0 and found.least_error_ratio is None


def test_where_some_may_fail_a_percentile_is_that_of_all_requests() -> None:
    """p90 <= 50 ms holds up to 100 - ln(10) / 0.05 = 53.9, whether or not the 0.4% that then wait for more than
    120 ms may fail: with 1% they may, and with 0.1% the rate is 100 - ln(1000) / 0.12 = 42.4."""
    assert within(120.0, p90_ms=50.0, error_ratio=0.01).rps == pytest.approx(53.9, rel=0.04)
    assert within(120.0, p90_ms=50.0, error_ratio=0.001).rps == pytest.approx(42.4, rel=0.1)


def test_where_none_may_fail_the_capacity_is_below_that_where_few_may() -> None:
    """Of 10,000 requests of an M/M/1 queue none is above 100 ms only far below the rate at which one of a hundred is;
    with a timeout that no queue reaches nothing is told from saturation, and without an objective it is that."""
    rps = within(100.0, error_ratio=0.0).rps
    assert rps is not None and rps < 30
    late = within(LONG_MS, error_ratio=0.0)
    assert late.rps is None and late.interval_rps[1] == pytest.approx(100)
    assert within(100.0).rps == within(100.0, error_ratio=1.0).rps == pytest.approx(100)
