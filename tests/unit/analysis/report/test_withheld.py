"""A figure that was withheld because the client made it is never said to lack requests."""

from __future__ import annotations

from html import unescape
from typing import Any

from inferbench_tasks.analysis.lacking import Lack, lack_of
from inferbench_tasks.analysis.report.advise import advise
from inferbench_tasks.analysis.report.beginning import in_short
from inferbench_tasks.analysis.report.compose import html
from inferbench_tasks.analysis.report.missing import missing, withheld_notes
from inferbench_tasks.analysis.report.runs import RunView
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.loadgen.client_share import withhold
from inferbench_tasks.loadgen.objective import judge
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.submission.slo import SloSpec
from tests.unit.analysis.builders import SECOND, named, records, view

REASON = "up to 9.90 ms of the p99 of 10.90 ms are the client's own (at most 1.00 ms): requests left late"


def _view(run_id: str = "run.000") -> RunView:
    """A run of enough requests whose p99 was withheld."""
    table = records(5.0)
    run = view(table, run_id)
    assert run.result is not None
    summary: dict[str, Any] = run.result.summary.model_dump()
    withhold(summary, {"e2e_latency_ms": {"p99": REASON}})
    summary["slo"] = judge(
        SloSpec.model_validate({"p99_ms": 20.0}), summary, Window.of(table, 2 * SECOND, 10 * SECOND)
    )
    return view(table, run_id, summary=summary)


def test_a_withheld_percentile_is_named_with_its_reason() -> None:
    """The report says whose milliseconds they are, and not that requests are missing."""
    texts = missing(_view())
    assert f"its p99 is withheld: {REASON}." in texts
    assert not any("too few for p99" in text for text in texts)


def test_the_note_under_the_table_of_runs_has_the_true_reason() -> None:
    """A reader of rows of dashes is not told of too few samples alone where the certificate is why."""
    assert withheld_notes([_view()]) == [f"Withheld of run.000: p99: {REASON}."]
    text = unescape(html([_view()], {"name": "x"}))
    assert f"support is left out. Withheld of run.000: p99: {REASON}." in " ".join(text.split())


def test_many_runs_with_withheld_figures_have_a_folded_list_beneath_their_table() -> None:
    """A line for each reason with its runs, in place of a paragraph of all of them."""
    views = []
    for number in range(4):
        run = _view(f"run.00{number}")
        assert run.result is not None
        summary = run.result.summary.model_dump()
        withhold(summary, {"e2e_latency_ms": {"p99": f"{number} ms are the client's own"}})
        views.append(view(records(5.0), f"run.00{number}", summary=summary))
    text = " ".join(unescape(html(views, {"name": "x"})).split())
    assert "support is left out. CPU and memory" in text
    folded = text.partition("<summary>4 remarks on what is withheld of these runs")[2].partition(
        "</details>"
    )[0]
    assert folded.count("<div>Withheld of run.00") == 4 and "3 ms are the client's own." in folded


def test_one_function_says_why_a_figure_is_not_there() -> None:
    """Withheld, too few, not known; nothing of one that is there, or of which nobody says anything."""
    p99 = FIGURES["p99_ms"]
    assert lack_of(p99, _view().summary) == Lack(f"withheld: {REASON}")
    few = {"e2e_latency_ms": {"count": 661, "p99": None}}
    assert lack_of(p99, few) == Lack("661 good answers are too few: it takes 662", longer=True)
    assert lack_of(p99, {"e2e_latency_ms": {"count": 662, "p99": None}}) is None
    assert lack_of(p99, {"e2e_latency_ms": {"p99": 3.0}}) is None
    energy = {"energy": {"reason": "no meter, and no data sheet"}}
    assert lack_of(FIGURES["joule_per_request"], energy) == Lack("not known: no meter, and no data sheet")


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


def test_every_run_whose_objective_is_undecided_is_named_with_its_reason() -> None:
    """Those of one reason together; of many the first six, and how many more."""
    few = view(records(5.0, rate_rps=25), "few")
    text = advise([_view("a"), few, _view("b")]).sentences[0]
    assert text.startswith(
        "Whether 3 runs keep the SLO can't be told: a and b (each: its p99 is withheld); few (it"
    )
    assert text.endswith("too few for p99; measure longer).")
    kept = view(records(5.0), "kept")
    told = advise([kept, _view("a"), _view("b")]).text
    assert "1 of 3 runs keep the SLO" in told
    assert "Whether 2 runs keep the SLO can't be told: a and b (each: its p99 is withheld)." in told
    many = advise([_view(f"r{number}") for number in range(9)]).sentences[0]
    assert (
        "r0, r1, r2, r3, r4 and r5 (each: its p99 is withheld); and 3 more." in many
        and "Whether 9 runs" in many
    )


def test_beside_a_run_that_nobody_can_tell_of_those_that_miss_the_objective_are_told() -> None:
    """The first with its figure, the others with their number, in the two sentences that a report begins with."""
    missing = [view(records(latency), name) for name, latency in (("a", 40.0), ("b", 90.0), ("c", 95.0))]
    advice = advise([_view("open"), *missing])
    assert advice.best is None
    first, _ = in_short(advice)
    assert first[0].startswith("Whether open keeps the SLO can't be told: ")
    assert first[1].startswith("With a, p99 is") and first[1].endswith("bound 20 ms; 2 more miss it.")


def test_several_runs_that_miss_the_objective_are_counted() -> None:
    """The first is named with its figure, the others with their number."""
    runs = [view(records(latency), name) for name, latency in (("kept", 5.0), ("a", 40.0), ("b", 90.0))]
    text = advise(runs).text
    assert (
        "1 of 3 runs keep the SLO" in text
        and "With a, p99 is" in text
        and "bound 20 ms; 1 more misses it." in text
    )
