"""What a probe says of its rate: only a load that is as it should be decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.loadgen.objective import judge
from inferbench_tasks.loadgen.rate_probe import judge_probe, least_requests, objective_text, rate_objective
from inferbench_tasks.loadgen.rate_search import LONGEST, Finding
from inferbench_tasks.loadgen.summary import summarise_window
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.submission.slo import SloSpec
from tests.samples import samples_table

SECOND = 1_000_000_000
SLO = SloSpec.model_validate({"p99_ms": 20})
VALID = Verdict.judged([])


def window(over: int, requests: int = 5000, failed: int = 0, seed: int = 1) -> Window:
    """Ten seconds of requests of 5 ms, of which so many take 50 ms, in no order."""
    rng = np.random.default_rng(seed)
    intended = np.sort(rng.uniform(0, 10 * SECOND, requests)).astype(np.int64)
    latency_ms = np.full(requests, 5.0)
    latency_ms[rng.choice(requests, over, replace=False)] = 50.0
    status = np.array(["ok"] * requests, dtype=object)
    status[rng.choice(requests, failed, replace=False)] = "timeout"
    done = intended + (latency_ms * 1e6).astype(np.int64)
    table = samples_table(
        {
            "intended_ns": intended, "sent_ns": intended, "first_byte_ns": done, "done_ns": done,
            "status": status.tolist(), "batch_size": np.ones(requests, np.int64), "phase": ["measure"] * requests,
        }
    )  # fmt: skip
    return Window.of(table, 0, 10 * SECOND)


def found(records: Window, verdict: Verdict = VALID, slo: SloSpec = SLO, **certificate: Any) -> Finding:
    """The finding of a probe at 500/s."""
    objective = judge(rate_objective(slo), summarise_window(records), records)
    assert objective is not None
    document = {"figures": {"growing_backlog": None, "steady_state": "steady"}, "withheld": {}} | certificate
    finding, reason = judge_probe(500.0, 10.0, verdict, document, objective)
    assert reason
    return finding


def test_a_percentile_below_its_bound_by_more_than_chance_is_kept() -> None:
    """0.4% of 5,000 requests over a p99: at most 1% of all are, at 99%."""
    assert found(window(20)).outcome == "kept"


def test_a_percentile_above_its_bound_by_more_than_chance_is_broken() -> None:
    """2% of 5,000."""
    assert found(window(100)).outcome == "broken"


@pytest.mark.parametrize(("over", "leans"), [(45, True), (55, False)])
def test_near_the_bound_it_is_undecided_leans_and_says_how_long_would_decide(over: int, leans: bool) -> None:
    """0.9% and 1.1%: a point estimate would have called the first one kept."""
    finding = found(window(over))
    assert finding.outcome == "undecided" and finding.leans is leans
    assert finding.needed_s is not None and finding.needed_s > 10


@pytest.mark.parametrize("over", [20, 100])
def test_a_disturbed_or_invalid_probe_says_nothing(over: int) -> None:
    """However clear its figures are, kept or broken."""
    for check in ("interference.steal", "client_stall", "schedule_moved"):
        verdict = Verdict.judged([Reason(check=check, text="it was not as it should be")])
        assert found(window(over), verdict).outcome == "unusable"


def test_failures_of_an_overloaded_server_break_the_rate() -> None:
    """A tenth of the requests failed, which makes the load invalid by itself: nothing else stands against it."""
    records = window(100, failed=500)
    errors = Verdict.judged([Reason(check="errors", text="500 of 5000 requests failed")])
    assert found(records, errors).outcome == "broken"
    also = Verdict.judged([*errors.reasons, Reason(check="client_stall", text="the sender was held up")])
    assert found(records, also).outcome == "unusable"


def test_a_growing_backlog_is_never_kept_and_is_looked_at_for_longer() -> None:
    """The percentile kept its bound in ten seconds, and would not for ever."""
    grown = {"growing_backlog": "the backlog grew", "steady_state": "steady"}
    finding = found(window(0), figures=grown)
    assert (finding.outcome, finding.leans, finding.needed_s) == ("undecided", False, 10.0 * LONGEST)
    assert found(window(100), figures=grown).outcome == "broken"


def test_a_load_that_was_not_steady_is_not_kept() -> None:
    """Its percentile depends on how long it lasted."""
    finding = found(window(0), figures={"growing_backlog": None, "steady_state": "not steady: it drifts"})
    assert (finding.outcome, finding.leans) == ("undecided", True)


def test_a_percentile_that_the_client_made_says_nothing() -> None:
    """Neither that the server keeps its bound nor that it breaks it."""
    withheld = {"e2e_latency_ms": {"p99": "the client made it"}}
    assert found(window(100), withheld=withheld).outcome == "unusable"
    other = {"e2e_latency_ms": {"p999": "the client made it"}}
    assert found(window(100), withheld=other).outcome == "broken"


def test_only_what_gets_worse_with_the_rate_decides_of_a_rate() -> None:
    """A bound on the throughput is missed at every low rate, and says nothing of the server's limit."""
    slo = SloSpec.model_validate({"p99_ms": 20, "throughput_rps": 1e6, "max_rate_rps": 800})
    assert found(window(20), slo=slo).outcome == "kept"
    assert objective_text(slo) == "p99_ms <= 20, error_ratio <= 0"
    assert least_requests(slo) == 662
