"""MLPerf's LoadGen over our transport: its four scenarios, and its agreement with our own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import missing
from inferbench_tasks.loadgen.mlperf_schedule import seeds, server_offsets_ns
from inferbench_tasks.loadgen.null_server import null_server
from inferbench_tasks.loadgen.records import column, is_ok
from inferbench_tasks.loadgen.summary import summarise
from tests.load_servers import ANSWER_BYTES, FaultyHttp, endpoint, http_answer, load_plan, run_load, serving

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(missing("mlperf")), reason="the extra mlperf is not installed"),
]
RATE = 200.0
SCENARIOS: dict[str, dict[str, Any]] = {
    "single_stream": {},
    "multi_stream": {"samples_per_query": 4},
    "server": {"rate_rps": RATE},
    "offline": {"requests": 300},
}


def options(scenario: str, **more: Any) -> dict[str, Any]:
    """A load by LoadGen."""
    arrivals = {"kind": scenario, **SCENARIOS[scenario]}
    return {"arrivals": arrivals, "engine": "mlperf_loadgen", "target_latency_ms": 100.0, **more}


def each_scenario() -> list[Any]:
    """With its protocol. What differs by that is the client, which one scenario shows over gRPC in `make test`."""
    return [
        pytest.param(name, protocol, marks=[pytest.mark.long] * (protocol == "grpc" and name != "server"))
        for name in SCENARIOS
        for protocol in ("http", "grpc")
    ]


@pytest.mark.parametrize(("scenario", "protocol"), each_scenario())
def test_loadgen_issues_and_every_request_is_recorded(tmp_path: Path, scenario: str, protocol: str) -> None:
    """Its logs are kept, its verdict is read with its reasons, and its count of queries is ours."""
    with null_server(protocol, ANSWER_BYTES) as where:
        plan, outcome = run_load(tmp_path, where, **options(scenario, warmup_s=0.2))
    assert outcome.applied.problem is None
    said = outcome.mlperf
    assert said is not None
    assert "not an MLPerf result" in said.note
    assert said.valid == (said.summary["Result is"] == "VALID") == (not said.reasons)
    assert all(Path(log).stat().st_size > 0 for log in said.logs)
    assert said.words() in outcome.warnings
    table = outcome.table()
    assert is_ok(table).all()
    assert len(set(column(table, "request_id").tolist())) == outcome.requests
    found = summarise(table, measure_start_ns=outcome.measure_start_ns, measure_end_ns=outcome.measure_end_ns)
    assert found["requests"] == (300 if scenario == "offline" else said.queries)
    assert found["cold_start"]["requests"] > 0  # the warm-up is ours, and is no part of the measurement
    (size,) = set(column(table, "batch_size").tolist())
    assert size == (4 if scenario == "multi_stream" else 1)
    certificate = outcome.certificate(plan)
    judged = {check.name: check.ok for check in certificate.checks}
    assert judged["loadgen_count"] and judged["loadgen_failures"]
    assert judged["loadgen_verdict"] == said.valid
    # Numbers, links and moments are those of LoadGen's schedule, or of the answers that its streams wait for.
    whole = ("impossible_records", "senders", "owners", "request_numbers", "chain", "schedule", "sent_early")
    assert [name for name in whole if not judged.get(name, True)] == []
    assert ("chain" in judged) == scenario.endswith("stream") and ("schedule" in judged) != (
        "chain" in judged
    )
    if scenario != "offline":
        assert said.summary["Min duration satisfied"] == "Yes"


def test_a_query_is_intended_for_the_moment_of_the_schedule(tmp_path: Path) -> None:
    """LoadGen issues when its schedule says, so that a query is late by its schedule and never early by it."""
    with null_server("http", ANSWER_BYTES) as where:
        plan, outcome = run_load(tmp_path, where, **options("server", duration_s=2.0))
    table = outcome.table()
    measured = column(table, "intended_ns") >= outcome.measure_start_ns
    gaps = np.diff(np.sort(column(table, "intended_ns")[measured]))
    schedule = server_offsets_ns(RATE, seeds(plan.seed)[2], len(gaps) + 1)
    assert np.array_equal(gaps, np.diff(schedule))
    late_ms = (column(table, "sent_ns") - column(table, "intended_ns"))[measured] / 1e6
    assert late_ms.min() >= 0
    assert np.median(late_ms) < 5


def test_failed_requests_make_a_run_of_loadgens_invalid(tmp_path: Path) -> None:
    """It counts them as answers, so that a few of hundreds are enough."""
    busy = http_answer("503 Busy", b"overloaded")
    with serving(lambda: FaultyHttp(lambda n: busy if n % 40 == 39 else http_answer())) as server:
        where = endpoint("http", server.port)
        plan, outcome = run_load(tmp_path, where, **options("server", duration_s=1.5))
    assert outcome.mlperf is not None
    reasons = {reason.check: reason.text for reason in outcome.certificate(plan).reasons}
    assert "which LoadGen can't be told" in reasons["loadgen_failures"]


def test_a_failing_server_ends_loadgen_early_and_keeps_the_records(tmp_path: Path) -> None:
    """The same stop as for every load; there is no verdict of LoadGen's then."""
    with serving(lambda: FaultyHttp(lambda n: http_answer("503 Busy", b"overloaded"))) as server:
        where = endpoint("http", server.port)
        _, outcome = run_load(tmp_path, where, **options("server", duration_s=60.0))
    assert outcome.applied.stopped_early is not None
    assert "had failed" in outcome.applied.stopped_early
    assert outcome.requests >= 50
    assert outcome.mlperf is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"arrivals": {"kind": "poisson", "rate_rps": 10}}, "does not make 'poisson'"),
        ({"shards": 2}, "one sender"),
        ({"batch_size": 2}, "samples_per_query"),
        ({"target_latency_ms": None}, "slo.p99_ms"),
    ],
)
def test_what_loadgen_cannot_do_is_refused(tmp_path: Path, more: dict[str, Any], message: str) -> None:
    """Before anything is sent, and with what to do."""
    with pytest.raises(InputError, match=message):
        load_plan(tmp_path, endpoint("http", 1), **options("server", **more))


def test_loadgens_server_scenario_and_ours_agree(tmp_path: Path) -> None:
    """The same server, the same rate: both send Poisson arrivals, and LoadGen's latencies are our records'."""
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    for folder in (theirs, mine):
        folder.mkdir()
    with null_server("http", ANSWER_BYTES) as where:
        _, by_loadgen = run_load(theirs, where, **options("server", duration_s=4.0))
        _, by_us = run_load(mine, where, arrivals={"kind": "server", "rate_rps": RATE}, duration_s=4.0)

    def law(table: Any) -> tuple[float, float]:
        """The mean rate, and the coefficient of variation of the gaps (1 for Poisson)."""
        gaps = np.diff(np.sort(column(table, "intended_ns"))) / 1e9
        return 1 / float(gaps.mean()), float(gaps.std() / gaps.mean())

    for outcome in (by_loadgen, by_us):
        rate, variation = law(outcome.table())
        assert is_ok(outcome.table()).all()
        assert rate == pytest.approx(RATE, rel=0.15)
        assert variation == pytest.approx(1.0, abs=0.15)
    said = by_loadgen.mlperf
    assert said is not None
    start_ns, end_ns = by_loadgen.measure_start_ns, by_loadgen.measure_end_ns
    found = summarise(by_loadgen.table(), measure_start_ns=start_ns, measure_end_ns=end_ns)
    ours = found["e2e_latency_ms"]["mean"]
    # LoadGen counts from its schedule, and to its own callback: it can only see more, by a hand-over each way.
    theirs_ms = int(said.summary["Mean latency (ns)"]) / 1e6
    assert 0 <= theirs_ms - ours < 5
