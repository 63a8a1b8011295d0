"""The name of an arrival process tells the truth: rate, spread and law of what it draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from inferbench_tasks.arrivals.base import ARRIVALS, ArrivalProcess
from inferbench_tasks.arrivals.closed import ClosedProcess
from inferbench_tasks.arrivals.max_rate import MaxRate
from tests.unit.arrivals.laws import CONSTANT, GAMMA, POISSON, Law, spec

DURATION_S = 60.0
ALL = [*POISSON, *GAMMA, *CONSTANT]


def _times_s(process: ArrivalProcess, seed: int, duration_s: float = DURATION_S) -> NDArray[np.float64]:
    return process.offsets_ns(duration_s, np.random.default_rng(seed)) / 1e9


@pytest.mark.parametrize("law", ALL, ids=lambda law: law.kind)
def test_the_mean_rate_is_the_expected_one(law: Law) -> None:
    """Over 200 draws the mean count lies within four standard errors, for the rate that the kind states too."""
    expected = float(law.expected(np.array([DURATION_S]), DURATION_S)[0])
    counts = np.array([len(_times_s(law.process, seed)) for seed in range(200)])
    error = max(counts.std(ddof=1) / np.sqrt(len(counts)), 0.05)
    assert abs(counts.mean() - expected) < 4 * error + 0.7 * (law.kind == "constant")
    stated = law.process.mean_rate_rps(DURATION_S)
    assert stated == pytest.approx(expected / DURATION_S)


@pytest.mark.parametrize("law", POISSON, ids=lambda law: law.kind)
def test_a_poisson_kind_is_poisson_after_a_change_of_time(law: Law) -> None:
    """Through the expected arrivals its times are uniform, its gaps exponential and its counts as variable."""
    total = float(law.expected(np.array([DURATION_S]), DURATION_S)[0])
    p_times, p_gaps, counts = [], [], []
    for seed in range(60):
        changed = law.expected(_times_s(law.process, seed), DURATION_S)
        p_times.append(stats.kstest(changed / total, "uniform").pvalue)
        p_gaps.append(stats.kstest(np.diff(changed), "expon").pvalue)
        counts.append(len(changed))
    # p-values of a true law are uniform themselves: a sharper test than any single one.
    assert stats.kstest(p_times, "uniform").pvalue > 1e-3
    assert stats.kstest(p_gaps, "uniform").pvalue > 1e-3
    assert stats.chi2.cdf(59 * np.var(counts, ddof=1) / total, 59) == pytest.approx(0.5, abs=0.4995)


@pytest.mark.parametrize("law", GAMMA, ids=lambda law: f"cv{law.process.model_dump()['cv']:g}")
def test_gamma_gaps_follow_their_law_and_coefficient_of_variation(law: Law) -> None:
    """Independent gamma gaps, and the first one like a moment that was picked at random."""
    cv = law.process.model_dump()["cv"]
    shape = 1 / cv**2
    gaps = [np.diff(_times_s(law.process, seed, 200.0)) for seed in range(20)]
    law_of_gaps = stats.gamma(shape, scale=1 / (100 * shape))
    resolution_s = 1e-6  # below it whole nanoseconds show: at cv 3 an eighth of the gaps is shorter than one
    below = law_of_gaps.cdf(resolution_s)

    def beyond(x: Any) -> Any:
        return (law_of_gaps.cdf(x) - below) / (1 - below)

    p_values = [stats.kstest(g[g > resolution_s], beyond).pvalue for g in gaps]
    assert np.mean(np.concatenate(gaps) <= resolution_s) == pytest.approx(below, abs=0.01)
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3
    pooled = np.concatenate(gaps)
    assert pooled.std() / pooled.mean() == pytest.approx(cv, rel=0.03)
    assert abs(np.corrcoef(pooled[1:], pooled[:-1])[0, 1]) < 4 / np.sqrt(len(pooled))
    first = [_times_s(law.process, seed, 1.0)[:1] for seed in range(400)]
    assert np.mean(np.concatenate(first)) == pytest.approx((1 + cv**2) / 200, rel=0.25)


@pytest.mark.parametrize("law", CONSTANT, ids=lambda law: f"{law.process.mean_rate_rps(1):.3g}")
def test_constant_gaps_are_equal_to_the_nanosecond(law: Law) -> None:
    """Whatever the seed, and without drift at the end of a day."""
    rate = law.process.mean_rate_rps(1.0)
    assert rate is not None
    offsets = law.process.offsets_ns(86_400.0, np.random.default_rng(1))
    exact = np.arange(len(offsets)) * (10**9 / rate)
    assert np.max(np.abs(offsets - exact)) <= 1
    assert offsets[0] == 0
    assert len(offsets) == np.ceil(86_400 * rate - 1e-9)


@pytest.mark.parametrize("law", ALL, ids=lambda law: law.kind)
def test_the_same_seed_gives_the_same_schedule(law: Law) -> None:
    """And another seed another one, unless there is no chance in it; always ascending int64 in [0, duration)."""
    first, again = _times_s(law.process, 7), _times_s(law.process, 7)
    assert np.array_equal(first, again)
    if law.kind != "constant":
        assert not np.array_equal(first, _times_s(law.process, 8))
    offsets = law.process.offsets_ns(3.7, np.random.default_rng(7))
    assert offsets.dtype == np.int64
    assert np.all(np.diff(offsets) >= 0)
    assert len(offsets) == 0 or (offsets[0] >= 0 and offsets[-1] < 3.7e9)


def test_offline_has_all_requests_at_the_start() -> None:
    """A hundred thousand at one instant, and no word about pace."""
    offline = spec(kind="offline", requests=100_000)
    offsets = offline.offsets_ns(10, np.random.default_rng(0))
    assert offsets.tolist() == [0] * 100_000
    assert not offline.paced
    assert offline.mean_rate_rps(10) == 10_000


@pytest.mark.parametrize(
    ("parameters", "concurrency", "think_time_ms", "samples"),
    [
        ({"kind": "closed_loop", "concurrency": 16, "think_time_ms": 5}, 16, 5, 4),
        ({"kind": "single_stream"}, 1, 0, 4),
        ({"kind": "multi_stream"}, 1, 0, 8),
        ({"kind": "multi_stream", "samples_per_query": 3}, 1, 0, 3),
    ],
)
def test_closed_kinds_state_their_concurrency(
    parameters: dict[str, object], concurrency: int, think_time_ms: float, samples: int
) -> None:
    """They have no schedule and no rate; a multi-stream query is one request of several samples."""
    process = spec(**parameters)
    assert isinstance(process, ClosedProcess)
    assert process.loop == "closed"
    assert (process.users, process.think_time_ns) == (concurrency, think_time_ms * 1e6)
    assert process.samples_per_request(4) == samples
    assert process.mean_rate_rps(10) is None
    process.check(10)
    with pytest.raises(TypeError, match="driven by a concurrency"):
        process.offsets_ns(10, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("parameters", "kind", "rate_rps"),
    [
        ({"kind": "poisson", "rate_rps": 5}, "poisson", 5),
        ({"kind": "spike", "base_rate_rps": 4, "spike_rate_rps": 9, "spike_at_s": 1, "spike_for_s": 1}, "poisson", 4),
        ({"kind": "ramp", "start_rate_rps": 0, "end_rate_rps": 50}, "poisson", 5),
        ({"kind": "ramp", "start_rate_rps": 30, "end_rate_rps": 50}, "poisson", 30),
        ({"kind": "diurnal", "rate_rps": 8, "amplitude_ratio": 1, "period_s": 9, "phase_ratio": 0.25}, "poisson", 16),
        ({"kind": "offline", "requests": 5}, "closed_loop", None),
    ],
)  # fmt: skip
def test_the_warmup_is_the_state_before_the_events(
    parameters: dict[str, object], kind: str, rate_rps: float | None
) -> None:
    """A spike belongs to the measurement alone, and a ramp begins where its warm-up ends."""
    warmup = spec(**parameters).warmup()
    assert warmup.kind == kind
    assert warmup.mean_rate_rps(10) == pytest.approx(rate_rps)


@pytest.mark.parametrize("law", ALL, ids=lambda law: law.kind)
def test_a_stationary_kind_has_the_same_rate_at_any_time(law: Law) -> None:
    """A third of the load expects a third of the requests exactly where the kind says so."""
    first, whole = law.expected(np.array([20.0, 60.0]), DURATION_S)
    assert law.process.stationary == (3 * first == pytest.approx(whole))


def test_a_search_for_a_rate_has_no_schedule_and_its_probes_are_poisson() -> None:
    """What it sends is decided load by load."""
    search = spec(kind="max_rate")
    assert isinstance(search, MaxRate)
    with pytest.raises(TypeError, match="looks for its rate"):
        search.offsets_ns(1.0, np.random.default_rng(1))
    assert search.mean_rate_rps(1.0) is None
    assert search.probe(12.5) == spec(kind="poisson", rate_rps=12.5)


def test_every_known_kind_is_tested_here() -> None:
    """A new kind without a law fails."""
    with_law = {law.kind for law in ALL} | {
        "offline",
        "closed_loop",
        "single_stream",
        "multi_stream",
        "trace",
        "max_rate",
    }
    assert {kind for kind in ARRIVALS if ARRIVALS.origin(kind) == "built-in"} == with_law
