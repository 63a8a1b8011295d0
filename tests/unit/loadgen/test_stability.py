"""Latencies that depend on how long the load lasted are withheld, unless overload was asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.loadgen.certificate import Certificate, certify
from inferbench_tasks.loadgen.client_share import withhold
from inferbench_tasks.loadgen.controller import Applied
from inferbench_tasks.loadgen.evidence import OpenPlan, ShardUsage
from inferbench_tasks.loadgen.outcome import STEADY, Outcome, _steady_start
from inferbench_tasks.loadgen.plan import LoadPlan, Segment
from inferbench_tasks.loadgen.stability import growing_backlog, withheld_for
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.window import Window
from tests.samples import samples_table

S, MS = 1_000_000_000, 1_000_000


def _columns(capacity_rps: float) -> dict[str, Any]:
    """1,000 requests/s for 5 s to a server that answers one after another."""
    intended = np.arange(0, 5 * S, MS)
    service_ns = round(S / capacity_rps)
    done = np.maximum.accumulate(intended - np.arange(len(intended)) * service_ns)
    return {"intended_ns": intended, "done_ns": done + (np.arange(len(intended)) + 1) * service_ns}


def _certificate(capacity_rps: float, steady: str = STEADY, **plan: Any) -> Certificate:
    columns = _columns(capacity_rps)
    certificate = certify(
        samples_table(columns),
        OpenPlan(columns["intended_ns"]),
        [ShardUsage(shard=0, cpu_s=0.1, wall_s=5, max_stall_ns=0, stalls_ns=())],
        measure_start_ns=0,
        measure_end_ns=5 * S,
    )
    outcome = Outcome(Path("unread"), 0, 5 * S, 0, 5000, Applied(0, 5 * S, (), ()), steady=steady)
    order = {"expect_overload": False, "unsteady": None, "mlperf": None} | plan
    return outcome.judge_stability(certificate, LoadPlan.model_construct(**order))


def test_the_certificate_says_how_far_the_throughput_moved() -> None:
    """For whoever judges the throughput, which stands though the latencies are withheld; None where nobody judged."""
    applied = Applied(0, 5 * S, (), ())
    moved = Outcome(Path("unread"), 0, 5 * S, 0, 5000, applied, throughput_change_ratio=-0.22)
    assert moved.stability_figures() == {"steady_state": "not judged", "throughput_change_ratio": -0.22}


def test_a_growing_backlog_leaves_no_latency_and_a_valid_throughput() -> None:
    """15.10: 1,000 requests/s at a capacity of 833: all percentiles and the mean are null with both numbers."""
    certificate = _certificate(833)
    assert certificate.valid
    summary = summarise(samples_table(_columns(833)), measure_start_ns=0, measure_end_ns=5 * S)
    assert summary["e2e_latency_ms"]["p99"] > 500
    withhold(summary, certificate.withheld)
    for series in ("e2e_latency_ms", "send_latency_ms", "first_byte_latency_ms"):
        assert [summary[series][name] for name in ("mean", "p50", "p90", "p95", "p99", "p999")] == [None] * 6
    assert "the backlog grew from" in summary["e2e_latency_ms"]["withheld"]["p99"]
    assert "load.expect: overload" in summary["e2e_latency_ms"]["withheld"]["p99"]
    assert summary["throughput_rps"] == pytest.approx(833, rel=0.01)


def test_overload_that_was_asked_for_keeps_its_latencies_and_says_so() -> None:
    """15.10: The same load with ``load.expect: overload``: nothing is withheld, and both warnings stand."""
    certificate = _certificate(833, expect_overload=True)
    assert certificate.withheld == {}
    assert certificate.figures["expect"] == "overload"
    assert any("overload was asked for" in warning for warning in certificate.warnings)
    assert any("the backlog grew" in warning for warning in certificate.warnings)


def test_a_load_that_is_not_steady_has_no_latency_either() -> None:
    """15.10: The words of the judge are the reason; a steady load, and one that nobody judged, keep theirs."""
    certificate = _certificate(2000, steady="not steady: the latency drifts by +40% over the load")
    assert "drifts by +40%" in certificate.withheld["e2e_latency_ms"]["p99"]
    assert _certificate(2000).withheld == {}
    assert _certificate(2000, steady="not judged: that takes 10 s of load").withheld == {}


@pytest.mark.parametrize("plan", [{"unsteady": "ramp arrivals change with time"}, {"mlperf": object()}])
def test_a_load_that_changes_by_itself_only_warns(plan: dict[str, Any]) -> None:
    """A ramp's backlog grows with its rate, and MLPerf's window is its own."""
    certificate = _certificate(833, **plan)
    assert certificate.withheld == {}
    assert any("the backlog grew" in warning for warning in certificate.warnings)


def test_three_requests_are_a_backlog_to_a_server_of_one_request_a_second() -> None:
    """One request/s to a server that answers 0.8/s: after 30 s a request takes seconds more than at the begin."""
    intended = np.arange(0, 30 * S, S)
    done = np.arange(1, 31) * round(1.25 * S)
    table = samples_table({"intended_ns": intended, "done_ns": done})
    reason = growing_backlog(Window.of(table, 0, 30 * S))
    assert reason is not None and "the server did not keep up" in reason


@pytest.mark.parametrize("seed", range(20))
def test_a_slow_server_that_keeps_up_has_no_backlog(seed: int) -> None:
    """Two requests/s at random times to a server that answers 3/s: what waits now and then is no growth."""
    rng = np.random.default_rng(seed)
    intended = np.sort(rng.uniform(0, 40, 80))
    done = np.empty(80)
    for index, at in enumerate(intended):
        done[index] = max(at, done[index - 1] if index else 0.0) + 1 / 3
    table = samples_table({"intended_ns": (intended * S).astype(int), "done_ns": (done * S).astype(int)})
    assert growing_backlog(Window.of(table, 0, 40 * S)) is None


@pytest.mark.parametrize(("kind", "withheld"), [("closed", False), ("open", True)])
def test_too_few_answers_are_not_an_unsteady_load(kind: str, withheld: bool) -> None:
    """Of a slow server nobody can tell: users who wait pile up nothing, and of an open loop it is said what to do."""
    segment: dict[str, Any] = {"kind": kind, "start_ns": 0, "end_ns": 12 * S}
    order: dict[str, Any] = {
        "segments": (Segment.model_construct(**segment),), "unsteady": None, "mlperf": None, "expect_overload": False
    }  # fmt: skip
    plan = LoadPlan.model_construct(**order)
    applied = Applied(0, 12 * S, (), ())
    _, steady, warnings, change_ratio = _steady_start(plan, applied, 2 * S, 12 * S, True)
    assert change_ratio is None
    assert "too few to tell" in warnings[0]
    outcome = Outcome(Path("unread"), 0, 12 * S, 0, 60, applied, steady=steady)
    assert (outcome.unstable is not None) == withheld
    if outcome.unstable is not None:
        text = withheld_for(outcome.unstable)["e2e_latency_ms"]["p50"]
        assert "measure longer" in text and "overload" not in text
