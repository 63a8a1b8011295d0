"""A PerfDB that is away just when a stage fails."""

from __future__ import annotations

import pytest

from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.running.failure import record_failure


@pytest.mark.parametrize(("superseded", "ends"), [(False, True), (True, False)])
def test_a_run_ends_with_its_stage_unless_it_goes_on_elsewhere(superseded: bool, ends: bool) -> None:
    """What is recorded says which."""
    recorded: list[bool] = []
    record_failure(lambda: superseded, recorded.append)
    assert recorded == [ends]


def test_where_the_job_runs_can_t_be_asked_the_failure_is_recorded_all_the_same() -> None:
    """The run is not ended: it may go on elsewhere."""
    recorded: list[bool] = []
    record_failure(_away, recorded.append)
    assert recorded == [False]


def test_what_can_t_be_recorded_hides_no_failure() -> None:
    """Nothing is raised in the place of the stage's own error; the log has it."""
    record_failure(_away, lambda _: _raise())


def _away() -> bool:
    raise PerfDBError("PerfDB is away.")


def _raise() -> None:
    raise PerfDBError("PerfDB is away.")
