"""The benchmark of injected faults: what it runs, and what its gates let pass."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.training import faults
from benchmarks.training.cases import cases, clean
from benchmarks.training.little_memory import following
from inferbench_tasks.training.diagnosis.measured import RULES
from inferbench_tasks.training.findings import findings
from inferbench_tasks.training.statistics import LEAST_STEPS

#: First epochs are told apart before the rules that see the later ones; what names wrong figures names no cause.
WRONG = {"startup_in_means", "wrong_column", "impossible"}
#: What only a GPU can have: no fault of a machine without one.
OF_GPUS = {"unpinned"}
#: What the network itself would have to come to.
NOT_INJECTED = {"denormals"}
KNOWN = (
    ({rule.__module__.rpartition(".")[2] for rule in RULES} | {"first_epoch"})
    - WRONG
    - OF_GPUS
    - NOT_INJECTED
)


def test_every_fault_has_three_strengths_that_can_run_and_a_rule_that_is_there() -> None:
    """And so can the clean runs, which no rule is to name."""
    of_fault: dict[str, int] = {}
    for case in [*cases(), *clean()]:
        assert findings(case.job) == [] and case.job.measured_steps >= LEAST_STEPS, case.name
        assert case.rule in KNOWN if case.fault != "clean" else case.rule is None
        of_fault[case.fault] = of_fault.get(case.fault, 0) + 1
    of_fault.pop("clean")
    assert set(of_fault.values()) == {3} and {case.rule for case in cases()} == KNOWN


def test_the_plan_is_the_same_for_a_seed_and_has_twenty_clean_runs() -> None:
    """Each by its own number, so that equal ones are told apart in the rows."""
    plan = faults.planned(False, None, 3)
    assert [case.name for _, case in plan] == [case.name for _, case in faults.planned(False, None, 3)]
    alike = [(number, case.name) for number, case in plan if case.fault == "clean"]
    assert len(alike) == len(set(alike)) == 20


def row(named: str | None, rule: str | None = "cores", verdict: str = "valid", **more: Any) -> dict[str, Any]:
    return {"case": "x/1", "rule": rule, "named": named, "verdict": verdict, **more}


GOOD = [row("cores")] * 19 + [row(None, None)]


@pytest.mark.parametrize(
    ("rows", "passes"),
    [
        (GOOD, True),
        ([*GOOD, row("fetch")], True),  # 19 of 20 are 95%
        ([*GOOD, row("fetch"), row("fetch")], False),
        ([*GOOD, row("cores", None)], False),
        ([*GOOD, row("cores", verdict="disturbed")], False),
        ([*GOOD, row(None, verdict="disturbed")], True),
        ([row("cores")], False),  # without a clean run nothing is said of them
        ([row(None, verdict="disturbed"), row(None, None, "disturbed")], False),
        ([*GOOD, row("cores", verified={"predicted_by_measured": 1.14})], True),
        ([*GOOD, row("cores", verified={"predicted_by_measured": 1.16})], False),
        ([*GOOD, {"case": "x/2", "rule": "cores", "failed": "killed"}], False),
    ],
)
def test_gates_fail_where_a_promise_is_broken_or_undecided(rows: list[dict[str, Any]], passes: bool) -> None:
    """By rows of known outcomes."""
    assert faults.gates(rows) is passes


def test_the_limit_of_little_memory_leaves_room_for_its_share_of_the_data(tmp_path: Path) -> None:
    """Of 500 MB the page cache is 60: 440 are held, and 40 more are room for data; less that is held a moment later
    takes none of it.
    """
    (tmp_path / "memory.usage_in_bytes").write_text("500000000\n")
    (tmp_path / "memory.stat").write_text("cache 60000000\nrss 430000000\n")
    limit = tmp_path / "memory.limit_in_bytes"
    with following(tmp_path, 40_000_000):
        end_s = time.monotonic() + 30
        while not limit.exists() and time.monotonic() < end_s:
            time.sleep(0.02)
        (tmp_path / "less").write_text("480000000\n")
        (tmp_path / "less").replace(tmp_path / "memory.usage_in_bytes")
        time.sleep(0.3)
    assert limit.read_text() == "480000000"
