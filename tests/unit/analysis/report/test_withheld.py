"""A figure that was withheld because the client made it is never said to lack requests."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.analysis.report.advice import advise
from inferbench_tasks.analysis.report.missing import missing
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.loadgen.client_share import withhold
from inferbench_tasks.loadgen.objective import judge
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.submission.slo import SloSpec
from tests.unit.analysis.builders import SECOND, named, records, view

REASON = "up to 9.90 ms of the p99 of 10.90 ms are the client's own (at most 1.00 ms): requests left late"


def _view() -> RunView:
    """A run of enough requests whose p99 was withheld."""
    table = records(5.0)
    run = view(table)
    assert run.result is not None
    summary: dict[str, Any] = run.result.summary.model_dump()
    withhold(summary, {"e2e_latency_ms": {"p99": REASON}})
    summary["slo"] = judge(
        SloSpec.model_validate({"p99_ms": 20.0}), summary, Window.of(table, 2 * SECOND, 10 * SECOND)
    )
    return view(table, summary=summary)


def test_a_withheld_percentile_is_named_with_its_reason() -> None:
    """The report says whose milliseconds they are, and not that requests are missing."""
    texts = missing(_view())
    assert f"its p99 is withheld: {REASON}." in texts
    assert not any("too few for p99" in text for text in texts)


def test_advice_can_not_tell_an_objective_on_a_withheld_percentile() -> None:
    """Whether the bound is kept is open, and the client is why; longer runs would not help."""
    run = _view()
    assert run.figure("slo")["met"] is None
    text = advise(named(run)).text
    assert "its p99 is withheld" in text
    assert "too few" not in text


def test_advice_says_why_an_objective_on_each_request_is_open() -> None:
    """A share of good answers that has no figure was measured: the load was too short to know that it is steady."""
    run = _view()
    assert run.result is not None
    summary = run.result.summary.model_dump()
    summary["tokens"] = {"good_ratio": None, "reasons": {"good_ratio": "measure longer"}}
    asked = SloSpec.model_validate({"each": {"ttft_ms": 100.0}, "min_good_ratio": 0.9})
    summary["slo"] = judge(asked, summary, Window.of(records(5.0), 2 * SECOND, 10 * SECOND))
    text = advise(named(view(records(5.0), summary=summary))).text
    assert "good has no figure (measure longer)" in text and "not measured" not in text
