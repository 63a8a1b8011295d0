"""A run without a load counts by its answers: one that got none shows nothing."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.loadgen import objective
from inferbench_tasks.stages import unloaded
from inferbench_tasks.stages.evaluate import Output as Evaluated
from inferbench_tasks.submission.slo import SloSpec


def evaluated(unanswered: int, alone: int = 0) -> Evaluated:
    """Of a hundred samples so many got no answer, and so many of the second pass."""

    def part(count: int) -> dict[str, Any]:
        return {"unanswered": count, "failures": {"http_5xx": count} if count else {}}

    document = {"samples": 100, "under_load": part(unanswered), "one_by_one": part(alone)}
    return Evaluated(answers_path="answers.parquet", document=document)


@pytest.mark.parametrize(("unanswered", "alone"), [(100, 100), (3, 0), (0, 3)])
def test_samples_without_an_answer_make_the_run_invalid(unanswered: int, alone: int) -> None:
    """By how many, of which kind; either pass tells. The larger count stands in the reason."""
    verdict = unloaded.verdict(evaluated(unanswered, alone), None)
    (reason,) = verdict.reasons
    count = max(unanswered, alone)
    assert (verdict.kind, reason.check, reason.figure) == ("invalid", "evaluate.unanswered", count)
    assert reason.text == f"{count} of 100 samples got no answer ({count} http_5xx)"


def test_all_answered_is_valid() -> None:
    """Nothing else is asked of it."""
    assert unloaded.verdict(evaluated(0), None).kind == "valid"


@pytest.mark.parametrize(("ratio", "met"), [(0.0, True), (0.01, False), (None, None)])
def test_no_errors_are_judged_by_the_samples(ratio: float | None, met: bool | None) -> None:
    """An objective of no errors is missed by one unanswered sample, and undecided where none was asked."""
    judged = objective.judge(SloSpec.model_validate({"error_ratio": 0}), {}, None, ratio)
    assert judged is not None
    assert (judged["met"], judged["checks"]["error_ratio"]["value"]) == (met, ratio)


def test_an_objective_without_any_check_is_not_met() -> None:
    """A latency, which only a load has, is judged by none: undecided, not met."""
    judged = objective.judge(SloSpec.model_validate({"error_ratio": None, "p99_ms": 10}), {}, None)
    assert judged is not None
    assert (judged["met"], judged["verdict"], judged["checks"]) == (None, "undecided", {})
