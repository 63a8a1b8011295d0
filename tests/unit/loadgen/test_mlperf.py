"""MLPerf LoadGen's words as data, what it can't do, and which loads are asked for a steady state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.loadgen.controller import Applied
from inferbench_tasks.loadgen.mlperf import DETAIL, SUMMARY, read_verdict
from inferbench_tasks.loadgen.outcome import _steady_start
from inferbench_tasks.submission.check import check
from inferbench_tasks.submission.schema import JobSpec
from tests.load_servers import endpoint, load_plan

SAID = """================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Server
Mode     : PerformanceOnly
Completed samples per second    : 187.83
Result is : INVALID
  Performance constraints satisfied : Yes
  Early stopping satisfied: NO
================================================
samples_per_query : 1
"""
LINES = """:::MLLOG {"key": "result_validity", "value": "INVALID", "metadata": {}}
:::MLLOG {"key": "result_invalid_reason", "value": "Early stopping:\\n not enough queries", "metadata": {}}
:::MLLOG {"key": "result_query_count", "value": 190, "metadata": {}}
:::MLLOG {"key": "cut off
"""


def test_a_verdict_is_read_with_its_reasons(tmp_path: Path) -> None:
    """And never called an MLPerf result."""
    (tmp_path / SUMMARY).write_text(SAID)
    (tmp_path / DETAIL).write_text(LINES)
    verdict = read_verdict(tmp_path)
    assert verdict is not None
    assert (verdict.scenario, verdict.valid, verdict.queries) == ("Server", False, 190)
    assert verdict.summary["Completed samples per second"] == "187.83"
    assert verdict.words() == (
        "MLPerf LoadGen, not an MLPerf result: Server, 190 queries: INVALID: Early stopping: not enough queries"
    )


def test_where_loadgen_gives_no_words_its_unmet_conditions_are_the_reason(tmp_path: Path) -> None:
    """Its server scenario says INVALID with an empty reason."""
    (tmp_path / SUMMARY).write_text(SAID)
    (tmp_path / DETAIL).write_text(LINES.replace("Early stopping:\\n not enough queries", ""))
    verdict = read_verdict(tmp_path)
    assert verdict is not None and verdict.reasons == ("Early stopping satisfied: NO",)
    (tmp_path / SUMMARY).write_text(SAID.replace("satisfied: NO", "satisfied: Yes"))
    verdict = read_verdict(tmp_path)
    assert verdict is not None and verdict.reasons == ("LoadGen gives no reason",)


@pytest.mark.parametrize("missing", [SUMMARY, DETAIL])
def test_half_of_the_logs_is_no_verdict(tmp_path: Path, missing: str) -> None:
    """A LoadGen that was ended has not judged."""
    (tmp_path / SUMMARY).write_text(SAID)
    (tmp_path / DETAIL).write_text(LINES)
    (tmp_path / missing).write_text("")
    assert read_verdict(tmp_path) is None
    (tmp_path / missing).unlink()
    assert read_verdict(tmp_path) is None


def _findings(load: dict[str, Any], **more: Any) -> list[str]:
    fields = {"name": "x", "model": {"kind": "canonical", "family": "mlp"}, **more}
    spec = {"engine": "mlperf_loadgen", **load}
    return [finding.message for finding in check(JobSpec.model_validate({**fields, "load": spec}), INSTALLED)]


def test_a_submission_that_loadgen_cannot_make_is_refused() -> None:
    """Other arrivals, several senders, a server scenario without its bound; with the bound it is fine."""
    server = {"arrivals": {"kind": "server", "rate_rps": 50}}
    assert not _findings(server, slo={"p99_ms": 50})
    (message,) = _findings(server)
    assert "slo.p99_ms" in message
    (message,) = _findings({"arrivals": {"kind": "poisson", "rate_rps": 50}})
    assert "does not make 'poisson'" in message
    (message,) = _findings({**server, "shards": 2}, slo={"p99_ms": 50})
    assert "one sender" in message


@pytest.mark.parametrize(
    "arrivals",
    [
        {"kind": "ramp", "start_rate_rps": 10, "end_rate_rps": 50},
        {"kind": "spike", "base_rate_rps": 10, "spike_rate_rps": 50, "spike_at_s": 2, "spike_for_s": 2},
        {"kind": "offline", "requests": 100},
    ],
)
def test_a_load_that_changes_by_itself_is_not_asked_for_a_steady_state(
    tmp_path: Path, arrivals: dict[str, Any]
) -> None:
    """Its window stays, there is no warning, and the word says why."""
    plan = load_plan(tmp_path, endpoint("http", 1), arrivals=arrivals, duration_s=20.0, warmup_s=1.0)
    applied = Applied(start_ns=0, end_ns=21_000_000_000, spools=(), usages=())
    start_ns, word, warnings, change_ratio = _steady_start(plan, applied, 1_000_000_000, 21_000_000_000, True)
    assert start_ns == 1_000_000_000
    assert word == f"not judged: {arrivals['kind']} arrivals change with time by themselves"
    assert warnings == () and change_ratio is None


def test_a_constant_load_is_asked(tmp_path: Path) -> None:
    """Without an answer it is said that nobody knows whether it was steady, with a warning."""
    plan = load_plan(
        tmp_path, endpoint("http", 1), arrivals={"kind": "constant", "rate_rps": 10}, duration_s=20.0
    )
    applied = Applied(start_ns=0, end_ns=20_000_000_000, spools=(), usages=())
    _, word, warnings, _ = _steady_start(plan, applied, 0, 20_000_000_000, True)
    assert word.startswith("not known to be steady: 0 answers in 20.0 s")
    assert len(warnings) == 1
    assert _steady_start(plan, applied, 0, 20_000_000_000, False)[1].startswith(
        "not judged: the load did not"
    )
