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
from inferbench_tasks.loadgen.outcome import STEADY, Outcome
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.summary import summarise
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


def test_a_growing_backlog_leaves_no_latency_and_a_valid_throughput() -> None:
    """1,000 requests/s at a capacity of 833: every percentile and the mean are null with both numbers, 833/s stand."""
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
    """The same load with ``load.expect: overload``: nothing is withheld, and both warnings stand."""
    certificate = _certificate(833, expect_overload=True)
    assert certificate.withheld == {}
    assert certificate.figures["expect"] == "overload"
    assert any("overload was asked for" in warning for warning in certificate.warnings)
    assert any("the backlog grew" in warning for warning in certificate.warnings)


def test_a_load_that_is_not_steady_has_no_latency_either() -> None:
    """The words of the judge are the reason; a steady load, and one that nobody judged, keep theirs."""
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
