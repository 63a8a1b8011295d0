"""Replay: the same job, the differences, the agreement."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis.report.replay import agreement, environment_differences
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from tests.unit.analysis.builders import records, view
from tests.unit.perfdb.builders import result as stored


def result(latency_ms: float, seed: int = 1, **changes: object) -> ResultDocument:
    """A result with that latency."""
    document = view(records(latency_ms, seed=seed), **changes).result  # type: ignore[arg-type]
    assert document is not None
    return document


def test_equal_runs_agree_and_others_do_not() -> None:
    """Another seed of the same agrees in everything; twice the latency is named."""
    then = result(5.0)
    assert all(row["agrees"] for row in agreement(then, result(5.0, seed=2)))
    slower = {row["figure"]: row for row in agreement(then, result(10.0, seed=2))}
    assert slower["p50_ms"]["agrees"] is False
    assert slower["p50_ms"]["ratio"] == pytest.approx(2.0, rel=0.05)
    assert slower["throughput_rps"]["agrees"] is True


def test_what_differs_in_the_environment_is_listed() -> None:
    """Only what is not the same, with both values; the host's name is no difference."""
    then = result(5.0, environment={"hardware": {"cpu": "A"}, "system": {"kernel": "6.1", "host": "x"}})
    now = result(5.0, environment={"hardware": {"cpu": "B"}, "system": {"kernel": "6.1", "host": "y"}})
    assert environment_differences(then, now) == [
        {"what": "environment.hardware.cpu", "then": "A", "now": "B"}
    ]


def test_a_figure_that_one_run_lacks_is_not_agreed_on() -> None:
    """A p99 that was withheld the second time is left open, not left out: nobody knows whether it agrees."""
    then, now = result(5.0), result(5.0, seed=2)
    now.summary.e2e_latency_ms.p99 = None
    rows = {row["figure"]: row for row in agreement(then, now)}
    assert rows["p99_ms"] == {
        "figure": "p99_ms", "unit": "ms", "then": then.summary.e2e_latency_ms.p99, "now": None, "ratio": None,
        "agrees": None,
    }  # fmt: skip


def test_a_run_that_does_not_count_agrees_with_nothing() -> None:
    """Bounds of what a quiet machine gives neither confirm nor refute what one gave."""
    disturbed = result(5.0, seed=2, verdict="disturbed: the hypervisor took 20%")
    assert {row["agrees"] for row in agreement(result(5.0), disturbed)} == {None}


def _judged(run_id: str, top1: float | None) -> ResultDocument:
    """Of a run without a load: its cold start, and its measure if it has one."""
    quality = {} if top1 is None else {"top1_ratio": {"value": top1, "ci95": [top1 - 0.03, top1 + 0.03]}}
    summary = {"cold_start_ms": {"total_ms": 100.0}, "quality": quality}
    return stored(run_id, summary=summary, load={"arrivals": {"kind": "none"}})


@pytest.mark.parametrize(("again", "agrees"), [(0.9, True), (0.9 + 1e-9, True), (0.897, False)])
def test_a_run_without_a_load_is_judged_by_its_answers(again: float, agrees: bool) -> None:
    """The same samples have the same answers: 0.3 points apart do not agree, though the interval is 3 wide."""
    (row,) = agreement(_judged("a", 0.9), _judged("b", again))
    assert (row["figure"], row["agrees"]) == ("top1_ratio", agrees)


def test_a_run_that_has_nothing_to_be_judged_by_is_refused() -> None:
    """One that was only traced: the command asks this before it runs anything."""
    with pytest.raises(InputError, match="nothing that a replay could be"):
        agreement(_judged("a", None), _judged("a", None))
