"""Names of parts."""

from __future__ import annotations

import pytest

from inferbench_tasks.contracts.part import PartName, whole_of
from inferbench_tasks.running.invocation import dag_run_invocation


def test_a_part_s_name_can_be_read_back() -> None:
    """Whole, first and last job; which jobs it has."""
    part = PartName("submitted.big.0a1b2c3d", 100, 199)
    assert str(part) == "submitted.big.0a1b2c3d..jobs-00100-00199"
    assert PartName.of(str(part)) == part
    assert [99 in part, 100 in part, 199 in part, 200 in part] == [False, True, True, False]


@pytest.mark.parametrize(
    "name", ["big", "big.jobs-00100-00199", "big..jobs-1-2", "big..jobs-00100-00199.more"]
)
def test_other_names_are_no_parts(name: str) -> None:
    """Also that of a submission which looks like one: its name has no two dots in a row."""
    assert PartName.of(name) is None
    assert whole_of(name) == name


def test_a_part_s_runs_are_of_its_submission_s_invocation() -> None:
    """One execution, one report, whatever the DAGs: but the runs of two submissions are two."""
    run = "manual__2026-11-23T22:00:00+00:00"
    whole = dag_run_invocation("big", run)
    assert dag_run_invocation("big..jobs-00100-00199", run) == whole
    assert whole != dag_run_invocation("big.jobs-00100-00199", run)
