"""The benchmark of sums: what it looks at, by hand-made steps, and what its gates say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.training import sums
from inferbench_tasks.training.findings import findings
from inferbench_tasks.training.statistics import LEAST_STEPS
from tests.unit.training.report.results import view


def test_every_case_can_run_and_has_steps_enough() -> None:
    """Otherwise its gate would stay undecided for ever."""
    for name, job in sums.cases().items():
        assert findings(job) == [] and job.measured_steps >= LEAST_STEPS, name


def test_shares_are_those_of_the_own_thread_and_of_long_phases() -> None:
    """Forward: 40 and 50 of 100 ns are 90%; loading has 4 of 120 ns of the step and is left out."""
    steps = {
        name: np.full(10, float(value))
        for name, value in {
            "step_ns": 120, "forward_wall_ns": 100, "forward_own_cpu_ns": 40, "forward_own_wait_ns": 50,
            "loading_wall_ns": 4, "loading_own_cpu_ns": 4, "loading_own_wait_ns": 0,
        }.items()
    }  # fmt: skip
    assert sums.shares([steps, steps]) == {"forward": pytest.approx(0.9)}


def test_the_phases_stand_beside_the_bare_step() -> None:
    """Phases of 4 + 1 + 5 ms, and 8 samples in 10 ms without instruments: 100%; of 12 ms they explain 83%."""
    job = sums.cases()["inference"].model_copy(
        update={"train": sums.cases()["inference"].train.model_copy(update={"batch_size": 8})}
    )
    result = view("a").result
    steps = {"step_ns": np.full(60, 12e6), "forward_wall_ns": np.full(60, 5e6)}
    steps |= {"forward_own_cpu_ns": np.full(60, 2e6), "forward_own_wait_ns": np.full(60, 3e6)}
    figures = sums.figures_of(result, [steps], job)
    assert figures["explained"] == pytest.approx(10 / 12)
    assert figures["beside_bare"] == pytest.approx(1.0) and figures["shares"] == {"forward": 1.0}


def rows(**changes: Any) -> list[dict[str, Any]]:
    """A good row of each case, and a good cost."""
    made: list[dict[str, Any]] = []
    for name, job in sums.cases().items():
        apart = sums.overlaps(job)
        made.append(
            {
                "case": name, "verdict": "valid", "explained": 0.99, "overlaps": apart,
                "shares": None if apart else {"forward": 1.0}, "beside_bare": None if apart else 1.0,
                **(changes if name == "train" else {}),
            }
        )  # fmt: skip
    return [*made, {"case": sums.COST, "verdict": "valid", "cpu": [1.002, 0.998, 1.006]}]


def words(of: list[dict[str, Any]]) -> list[str]:
    return [word for _, word, _ in sums.gates(of)]


def test_each_gate_passes_fails_or_is_undecided() -> None:
    """By valid runs alone: a disturbed one decides nothing, whatever it says."""
    assert words(rows()) == ["passed"] * 4
    assert words(rows(explained=0.96)) == ["failed", "passed", "passed", "passed"]
    assert words(rows(shares={"forward": 1.0, "loading": 0.9})) == ["passed", "failed", "passed", "passed"]
    assert words(rows(beside_bare=1.06)) == ["passed", "passed", "failed", "passed"]
    assert words(rows(explained=0.5, verdict="disturbed")) == [
        "undecided",
        "undecided",
        "undecided",
        "passed",
    ]
    assert words([]) == ["undecided"] * 4


def test_the_cost_is_decided_by_its_whole_interval() -> None:
    """0.98 to 1.03 leaves it open; 1.02 to 1.03 has failed."""
    for cpu, word in (([1.0, 0.98, 1.03], "undecided"), ([1.025, 1.02, 1.03], "failed")):
        assert words([*rows(), {"case": sums.COST, "verdict": "valid", "cpu": cpu}])[-1] == word
