"""Figures of a job that never ran, against the theory of queues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.brick_jobs.under_load import predicted as module
from inferbench_tasks.brick_jobs.under_load.added import Added
from inferbench_tasks.brick_jobs.under_load.distribution import Distribution
from inferbench_tasks.brick_jobs.under_load.predicted import (
    MAY_BE,
    NOBODY,
    TOO_CLOSE,
    UNSTABLE,
    Told,
    predicted,
)
from inferbench_tasks.brick_jobs.under_load.services import Services, sizes_of
from inferbench_tasks.brick_jobs.under_load.simulated import MOST_REQUESTS, Seen
from inferbench_tasks.submission.schema import JobSpec

MS = 1e6
NOTHING = Added(0.0, 0.0, Distribution.of([0.0]))


def job(arrivals: dict[str, Any], **serve: Any) -> JobSpec:
    load = {"arrivals": arrivals, "duration_s": 20, "warmup_s": 1}
    data = {"name": "t", "model": {"kind": "zoo", "name": "digits"}, "serve": serve, "load": load}
    return JobSpec.model_validate(data)


def services(*ms: float, off: float = 0.0) -> Services:
    """Batch 1, 2, 4 ... take so long, each within a share ``off`` of it."""
    ns = {1 << at: one * MS for at, one in enumerate(ms)}
    return Services(ns, {n: (one / (1 + off), one * (1 + off)) for n, one in ns.items()})


def row(spec: JobSpec, times: Services, added: Added = NOTHING, draws: int = 8) -> dict[str, Any]:
    return predicted(Told(spec, spec.traffic.arrivals, times, added), draws)


def poisson(rate_rps: float) -> dict[str, Any]:
    return {"kind": "poisson", "rate_rps": rate_rps}


def test_a_queue_of_random_arrivals_has_the_known_wait() -> None:
    """M/D/1 at half of its capacity: busy half of the time, p50 little above one service, p99 near four."""
    found = row(job(poisson(100)), services(5.0))
    assert found["state"] == "stable"
    assert found["utilisation_ratio"] == pytest.approx(0.5, rel=0.05)
    assert 5.0 <= found["p50_ms"] < 6.0 and found["p99_ms"] == pytest.approx(19.0, rel=0.15)
    assert found["p50_ms_interval"][0] <= found["p50_ms"] <= found["p50_ms_interval"][1]


def test_regular_arrivals_wait_for_nobody_and_see_what_the_server_adds() -> None:
    """5 ms of the model, 0.25 of the instance, 0.5 of the event loop, 0.25 of the way: 6 ms, every one of them."""
    added = Added(0.5 * MS, 0.25 * MS, Distribution.of([0.25 * MS]))
    found = row(job({"kind": "constant", "rate_rps": 50}), services(5.0), added)
    assert [found[name] for name in ("p50_ms", "p95_ms", "p99_ms")] == pytest.approx([6.0, 6.0, 6.0])


def long(rate_rps: float, duration_s: float) -> JobSpec:
    spec = job(poisson(rate_rps))
    return spec.model_copy(update={"load": spec.traffic.model_copy(update={"duration_s": duration_s})})


def test_a_long_load_near_saturation_is_simulated_until_the_queue_forgot_that_it_was_empty() -> None:
    """M/D/1 at 95%: the wait is longer than t services with 0.967 e^(-0.1017 t) (the pole: 0.95 (e^x - 1) = x): so
    p99 is 45 of them and one's own. Nearer to saturation than 100,000 requests tell there is no percentile."""
    found = row(long(190, 3_600), services(5.0), draws=8)
    assert found["state"] == "stable" and found["p99_ms"] == pytest.approx(5 * 46, rel=0.12)
    found = row(long(199.5, 36_000), services(5.0))
    assert found["state"].startswith(TOO_CLOSE) and found["p50_ms"] is None
    assert found["saturation_rps"] == pytest.approx(200)


def test_a_load_in_which_nobody_answers_is_not_called_stable() -> None:
    """A user who is answered after the load's end."""
    spec = job({"kind": "closed_loop", "concurrency": 1, "think_time_ms": 600_000})
    found = row(spec, services(1.0))
    assert found["state"].startswith(NOBODY) and found["p50_ms"] is None


@pytest.mark.parametrize("rate_rps", [200, 201, 1e5])
def test_more_than_can_be_answered_has_no_percentile(rate_rps: float) -> None:
    """At the capacity and above it a queue grows as long as the load lasts: words, and no figure."""
    found = row(job(poisson(rate_rps)), services(5.0))
    assert found["state"] == UNSTABLE and found["saturation_rps"] == pytest.approx(200)
    assert [found[name] for name in ("p50_ms", "p95_ms", "p99_ms", "utilisation_ratio")] == [None] * 4


def test_where_the_model_s_interval_allows_overload_there_is_no_percentile_either() -> None:
    """190 of 200 per second, and the model may take 10% longer: what would be printed is not known."""
    found = row(job(poisson(190)), services(5.0, off=0.1))
    assert found["state"].startswith(MAY_BE) and found["p99_ms"] is None
    assert row(job(poisson(170)), services(5.0, off=0.1))["state"] == "stable"


def test_a_spike_above_the_capacity_is_overload() -> None:
    """Though the mean of the whole load could be answered."""
    spike = {
        "kind": "spike", "base_rate_rps": 10, "spike_rate_rps": 1000, "spike_at_s": 5, "spike_for_s": 3
    }  # fmt: skip
    assert row(job(spike), services(5.0))["state"] == UNSTABLE


def test_users_who_wait_never_overload_a_server() -> None:
    """Four users of a server of 5 ms: each waits 20 ms, 200 answers per second."""
    found = row(job({"kind": "closed_loop", "concurrency": 4}), services(5.0))
    assert found["state"] == "stable" and found["p50_ms"] == pytest.approx(20.0)
    assert found["throughput_rps"] == pytest.approx(200, rel=0.02)


def test_batching_raises_the_capacity_by_what_larger_batches_save() -> None:
    """Batches of 4 in 8 ms: 500 per second instead of 200; sizes between are on the line."""
    batching = {"max_batch_size": 4, "max_delay_ms": 1}
    found = row(job(poisson(300), batching=batching), services(5.0, 6.0, 8.0))
    assert found["saturation_rps"] == pytest.approx(500) and found["state"] == "stable"
    assert 1.5 < found["batch_requests"] < 4
    assert services(5.0, 6.0, 8.0).mean_ns(3) == pytest.approx(7 * MS)


def test_a_request_that_takes_longer_than_its_client_waits_is_an_error() -> None:
    """All of them, with a time-out below the service time; their percentiles are none."""
    spec = job(poisson(10))
    spec = spec.model_copy(update={"load": spec.traffic.model_copy(update={"timeout_ms": 4.0})})
    found = row(spec, services(5.0))
    assert found["error_ratio"] == 1 and found["p50_ms"] is None


def test_a_percentile_that_failures_belong_to_is_withheld() -> None:
    """M/D/1 at half of its capacity: the wait is longer than t services with 0.661 e^(-1.2564 t) (the pole:
    0.5 (e^x - 1) = x), so that 1.5% of clients who wait for 20 ms fail. The p99 of the others is no p99, as of a run of
    which more than 0.1% failed; p50 is one up to 5%."""
    spec = job(poisson(100))
    spec = spec.model_copy(update={"load": spec.traffic.model_copy(update={"timeout_ms": 20.0})})
    found = row(spec, services(5.0))
    assert found["error_ratio"] == pytest.approx(0.0152, rel=0.3) and found["state"] == "stable"
    assert 5.0 <= found["p50_ms"] < 6.0
    assert found["p99_ms"] is None and found["p99_ms_interval"] is None


def test_without_an_objective_the_capacity_is_saturation_within_its_interval() -> None:
    """200 per second, and times within 10%: 182 to 220, exactly."""
    found = row(job(poisson(20)), services(5.0, off=0.1))
    assert found["capacity_rps"] == found["saturation_rps"] == pytest.approx(200)
    assert found["capacity_interval_rps"] == pytest.approx([200 / 1.1, 220])


def test_the_interval_has_the_model_s_error_in_it() -> None:
    """Times within 20% of the truth: regular arrivals are within about that."""
    found = row(job({"kind": "constant", "rate_rps": 50}), services(5.0, off=0.2), draws=60)
    low, high = found["p99_ms_interval"]
    assert 3.8 < low < 4.6 and 5.5 < high < 6.6


def test_sizes_are_powers_of_two_of_the_request_and_what_fits_at_most() -> None:
    """Of requests of 3 rows in batches of at most 17: 1, 2, 4 and 5 of them."""
    assert sizes_of(3, 17) == (3, 6, 12, 15)
    assert sizes_of(8, 0) == (8,) and sizes_of(1, 1) == (1,)


def test_draws_that_miss_the_timeout_are_not_the_quick_ones() -> None:
    """Of 40 draws four answer nobody within 500 ms and four every second request; all others take 1 ms: 97.5% of draws
    lie within 500 ms, p50 too, and not within 1."""
    quick = Seen(np.full(100, 1.0), 0.0, 0.5, 1.0, 100.0)
    half, nobody = Seen(np.full(50, 1.0), 0.5, 1.0, 1.0, 50.0), Seen(np.zeros(0), 1.0, 1.0, 1.0, 0.0)
    drawn = [quick] * 32 + [half] * 4 + [nobody] * 4
    found = module._figures([quick] * 10, drawn, False, False, 500.0)
    assert found["p99_ms"] == 1.0 and found["p99_ms_interval"] == pytest.approx([1.0, 500.0])
    assert found["p50_ms_interval"] == pytest.approx([1.0, 500.0])
    fine = module._figures([quick] * 10, [quick] * 36 + [half], False, False, 500.0)
    assert fine["p50_ms_interval"][1] < 30 and fine["p50_ms"] == 1.0


def test_a_long_load_that_changes_is_drawn_less_often_and_its_interval_is_wider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within a budget of requests, eight draws at least; the interval of few holds what that of many does."""
    spike = {
        "kind": "spike", "base_rate_rps": 100, "spike_rate_rps": 150, "spike_at_s": 5, "spike_for_s": 3
    }  # fmt: skip
    many = row(job(spike), services(5.0, off=0.1), draws=16)
    assert (many["draws"], many["draws_wanted"]) == (16, 16)
    monkeypatch.setattr(module, "MOST_SIMULATED", 10_000)
    few = row(job(spike), services(5.0, off=0.1), draws=16)
    assert few["draws"] == module.FEWEST_DRAWS and few["p50_ms"] == pytest.approx(many["p50_ms"], rel=0.05)
    (low, high), (least, most) = few["p50_ms_interval"], many["p50_ms_interval"]
    assert low <= least and most <= high
    monkeypatch.setattr(module, "MOST_OF_ONE", 100)
    none = row(job(spike), services(5.0, off=0.1), draws=16)
    assert none["state"].startswith(module.TOO_LONG) and none["p99_ms"] is None and none["capacity_rps"] > 0


def test_a_load_that_stays_the_same_is_drawn_as_often_as_it_was() -> None:
    """Away from saturation its length is bounded: forty draws of such a path fit into the budget. Close to it fewer."""
    assert module.draws_of(2 * MOST_REQUESTS, module.DRAWS) == module.DRAWS
    assert module.draws_of(2 * module.MOST_OF_STEADY, module.DRAWS) == module.FEWEST_DRAWS
    assert module.draws_of(1_000_000, module.DRAWS) == module.FEWEST_DRAWS
