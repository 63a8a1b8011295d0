"""Whether a training agrees with its replay."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.contracts.verdict import Reason, Verdict
from inferbench_tasks.training.again import agreement, surroundings
from inferbench_tasks.training.result import TrainingResult
from tests.unit.training.report.results import view


def run(step_ms: float, phases: dict[str, float], rate: float, rounds: int = 3) -> TrainingResult:
    """A run with these means, each known to 1% within its rounds."""

    def block(mean: float) -> dict[str, Any]:
        return {"mean": mean, "ci95": [mean * 0.99, mean * 1.01]}

    result = view("a").result
    assert result.summary is not None
    timing = {
        **result.summary.synchronised,
        "rounds": rounds,
        "step_ms": block(step_ms),
        "phases": {name: {"wall_ms": block(mean)} for name, mean in phases.items()},
    }
    bare = {
        **result.summary.bare,
        "rounds": rounds,
        "samples_per_s": rate,
        "samples_per_s_ci95": [rate * 0.99, rate * 1.01],
    }
    summary = result.summary.model_copy(update={"synchronised": timing, "bare": bare})
    return result.model_copy(update={"summary": summary})


def rows(then: TrainingResult, now: TrainingResult) -> dict[str, Any]:
    return {row["figure"]: row for row in agreement(then, now)}


def test_equal_runs_agree_and_twice_the_step_does_not() -> None:
    """Figures and ratios as they stand in the results."""
    then = run(10, {"forward": 4, "loading": 5.8, "to_device": 0.2}, 800)
    same = rows(then, run(10.2, {"forward": 4.1, "loading": 5.9, "to_device": 0.9}, 790))
    # 0.2 and 0.9 ms: 9% of the second run's step weighs, so it is judged.
    assert set(same) == {
        "samples/s", "step", "loading", "forward", "to device",
    }  # fmt: skip
    assert same["step"] == {
        "figure": "step", "unit": "ms", "then": 10, "now": 10.2, "ratio": pytest.approx(1.02), "agrees": True,
    }  # fmt: skip
    assert same["to device"]["agrees"] is False
    slower = rows(then, run(20, {"forward": 14, "loading": 5.8, "to_device": 0.2}, 400))
    assert {name: row["agrees"] for name, row in slower.items()} == {
        "samples/s": False, "step": False, "forward": False, "loading": True,
    }  # fmt: skip


def test_a_run_that_does_not_count_agrees_with_nothing() -> None:
    """Disturbed steps neither confirm nor refute."""
    then = run(10, {"forward": 10}, 800)
    bad = then.model_copy(update={"verdict": Verdict.judged([Reason(check="steps", text="too few")])})
    assert {row["agrees"] for row in agreement(then, bad)} == {None}


def test_a_run_without_figures_has_none_to_agree() -> None:
    """What the other run has stands there, and nobody can tell."""
    then = run(10, {"forward": 10}, 800)
    failed = then.model_copy(update={"summary": None})
    assert {(row["then"] is None, row["now"], row["agrees"]) for row in agreement(then, failed)} == {
        (False, None, None)
    }


def test_copies_of_images_are_other_surroundings() -> None:
    """What was read in place is of the storage that a user laid it on."""
    then = run(10, {"forward": 4}, 800)
    copied = then.model_copy(update={"data": {**then.data, "brought": True}})
    assert surroundings(then) != surroundings(copied)
    assert surroundings(copied) == {**surroundings(then), "data": "brought from another host"}
