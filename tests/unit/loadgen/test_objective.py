"""Whether an objective was kept, by any figure of the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.loadgen.objective import judge
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.submission.slo import SloSpec
from tests.samples import samples_table

MS, S = 1_000_000, 1_000_000_000


def _window(latency_ms: Any, status: list[str] | None = None) -> Window:
    """Requests of these latencies, evenly over 10 s."""
    intended = np.linspace(0, 10 * S, len(latency_ms), endpoint=False).astype(np.int64)
    columns: dict[str, Any] = {
        "intended_ns": intended, "done_ns": intended + (np.asarray(latency_ms) * MS).astype(np.int64)
    }  # fmt: skip
    if status is not None:
        columns["status"] = status
    return Window.of(samples_table(columns), 0, 10 * S)


#: 1,000 requests of 12 ms each.
WINDOW = _window(np.full(1000, 12.0))

SUMMARY: dict[str, Any] = {
    "e2e_latency_ms": {"p99": 12.0, "p999": None},
    "throughput_rps": 50.0,
    "error_ratio": 0.0,
    "accuracy_ratio": 0.9,
    "energy": {"joule_per_sample": 0.5},
    "resources": {"server": {"rss_bytes": {"max": 1e9}}},
}


@pytest.mark.parametrize(
    ("bounds", "met"),
    [
        ({"p99_ms": 12}, True),
        ({"p99_ms": 11.9}, False),
        ({"throughput_rps": 50}, True),
        ({"throughput_rps": 50.1}, False),
        ({"accuracy_ratio": 0.91}, False),
        ({"accuracy_ratio": 0.9, "joule_per_sample": 0.5, "rss_bytes": 1e9}, True),
        ({"p999_ms": 20, "p99_ms": 20}, None),
        ({"p999_ms": 20, "p99_ms": 2}, False),
        ({"cold_start_ms": 100}, None),
    ],
)
def test_every_bound_counts_on_its_own_side(bounds: dict[str, float], met: bool | None) -> None:
    """At least where more is better; one that is missed decides, one without a value leaves it open."""
    judged = judge(SloSpec.model_validate(bounds), SUMMARY, WINDOW)
    assert judged is not None and judged["met"] is met
    assert [*bounds, "error_ratio"] == sorted(judged["checks"], key=[*bounds, "error_ratio"].index)


def test_without_an_objective_there_is_nothing_to_keep() -> None:
    """Nothing is judged where no objective is set."""
    assert judge(None, SUMMARY, WINDOW) is None


def _judged(latency_ms: Any, bound_ms: float, name: str = "p99_ms", status: list[str] | None = None) -> Any:
    window = _window(latency_ms, status)
    table_slo = SloSpec.model_validate({name: bound_ms, "error_ratio": 0.05})
    columns: dict[str, Any] = {"intended_ns": window.intended_ns, "done_ns": window.done_ns}
    if status is not None:
        columns["status"] = status
    return summarise(samples_table(columns), measure_start_ns=0, measure_end_ns=10 * S, slo=table_slo)["slo"]


def test_an_objective_is_undecided_where_chance_could_have_kept_it() -> None:
    """A p99 just below its bound in 2,000 requests is neither met nor missed; the run says how many more would tell."""
    latency = np.random.default_rng(1).exponential(10, 2000)
    bound = float(np.quantile(latency, 0.992))
    slo = _judged(latency, bound)
    check = slo["checks"]["p99_ms"]
    assert check["value"] < bound
    assert slo["met"] is None and slo["verdict"] == "undecided"
    assert check["requests"] == 2000 and 0 < check["over"] <= 16
    assert slo["needed_requests"] > 2000
    assert slo["needed_s"] == pytest.approx(slo["needed_requests"] / 200)


def test_an_objective_that_is_clear_is_decided() -> None:
    """Twice the p99 is met, half of it missed; nothing more is needed."""
    latency = np.random.default_rng(2).exponential(10, 2000)
    p99 = float(np.quantile(latency, 0.99))
    met, missed = _judged(latency, 2 * p99), _judged(latency, p99 / 2)
    assert (met["met"], met["verdict"], met["needed_s"]) == (True, "met", None)
    assert (missed["met"], missed["verdict"], missed["needed_s"]) == (False, "missed", None)


def test_requests_that_failed_are_over_every_bound() -> None:
    """With 2% of timeouts no p99 is met: of the others it would be 1 ms."""
    status = ["timeout" if index % 50 == 7 else "ok" for index in range(20_000)]
    status = list(np.random.default_rng(3).permutation(status))
    slo = _judged(np.full(20_000, 1.0), 50, status=status)
    assert slo["checks"]["p99_ms"]["value"] is None
    assert slo["checks"]["p99_ms"]["met"] is False


def test_a_percentile_that_failures_may_belong_to_decides_nothing() -> None:
    """With 0.3% of timeouts, among the slowest 1% in truth, the p99 is withheld and its objective undecided."""
    status = ["timeout" if index % 333 == 7 else "ok" for index in range(20_000)]
    status = list(np.random.default_rng(4).permutation(status))
    check = _judged(np.full(20_000, 1.0), 50, status=status)["checks"]["p99_ms"]
    assert check["value"] is None and check["met"] is None
    assert "failed" in check["reason"]


@pytest.mark.parametrize(
    ("interval", "met"), [([9.0, 10.0], True), ([9.0, 10.5], None), ([10.1, 11.0], False), (None, None)]
)
def test_a_mean_is_on_one_side_of_its_bound_where_its_interval_is(
    interval: list[float] | None, met: bool | None
) -> None:
    """A mean that is seen just below its bound lies above it in nearly half of all runs: it is undecided, with why."""
    summary = {"e2e_latency_ms": {"mean": 9.5, "ci95": {"mean": interval}}, "error_ratio": 0.0}
    judged = judge(SloSpec.model_validate({"mean_ms": 10.0}), summary, WINDOW)
    assert judged is not None and judged["met"] is met
    assert (judged["checks"]["mean_ms"]["reason"] is not None) == (met is None)


def test_a_bound_that_every_request_broke_is_missed_however_few_they_are() -> None:
    """Three hundred requests are too few for a p99, which stays null; all of them over its bound are no chance."""
    judged = _judged(np.full(300, 12.0), 10)
    assert (judged["met"], judged["checks"]["p99_ms"]["value"]) == (False, None)
    assert _judged(np.full(300, 9.0), 10)["met"] is None


@pytest.mark.parametrize(
    ("requests", "failed", "met"),
    [(200, 0, None), (500, 0, True), (1000, 3, None), (5000, 20, True), (1000, 30, False), (1000, 14, None)],
)
def test_a_share_of_failures_is_decided_by_exact_binomial_bounds(
    requests: int, failed: int, met: bool | None
) -> None:
    """At most 1%: 200 requests of which none fails show nothing, 459 do; what is undecided says how many would."""
    status = np.full(requests, "ok", dtype=object)
    status[np.linspace(3, requests - 3, failed).astype(int)] = "timeout"
    window = _window(np.full(requests, 12.0), status.tolist())
    summary = {"error_ratio": failed / requests}
    judged = judge(SloSpec.model_validate({"error_ratio": 0.01}), summary, window)
    assert judged is not None and judged["met"] is met
    check = judged["checks"]["error_ratio"]
    assert (check["over"], check["requests"]) == (failed, requests)
    if requests == 200:
        assert check["needed_requests"] == pytest.approx(459, abs=2)


def test_where_none_may_fail_the_runs_own_requests_are_meant() -> None:
    """Nobody could show it of all others: none failed is met, one is missed, as before."""
    slo = SloSpec.model_validate({"error_ratio": 0})
    for ratio, met in ((0.0, True), (0.001, False)):
        judged = judge(slo, {"error_ratio": ratio}, WINDOW)
        assert judged is not None and judged["met"] is met


@pytest.mark.parametrize(
    ("interval", "met"), [([120.0, 130.0], True), ([90.0, 95.0], False), ([95.0, 120.0], None)]
)
def test_a_figure_of_which_more_is_better_is_above_its_bound_where_its_interval_is(
    interval: list[float], met: bool | None
) -> None:
    """The highest rate that was kept, at least 100/s: not the other way round."""
    summary = {"error_ratio": 0.0, "max_rate": {"rps": interval[0], "interval": {"rps": interval}}}
    judged = judge(SloSpec.model_validate({"max_rate_rps": 100.0}), summary, WINDOW)
    assert judged is not None and judged["checks"]["max_rate_rps"]["met"] is met
