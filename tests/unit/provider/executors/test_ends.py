"""What the executor writes down of jobs that it ends."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest

pytestmark = pytest.mark.airflow


def job(request: LeaseRequest) -> Any:
    """The tasks of a job that asked so."""
    from inferbench_tasks.provider.executors.metadata import JobTasks, TaskState

    return JobTasks((TaskState("job-000.first", "failed", 1, LeasedTask(0, "first", 0, request=request)),))


@pytest.mark.parametrize("found", [None, InputError("no such run"), PerfDBError("away")])
def test_a_run_that_is_not_there_keeps_nothing_from_being_done(found: Exception | None) -> None:
    """A night has none and none is asked for; a deleted one is passed over; a database that is away is said."""
    from inferbench_tasks.provider.executors.device_celery import DeviceCeleryExecutor

    asked: list[str] = []

    def end_run(run_id: str, verdict: Verdict) -> None:
        asked.append(run_id)
        if found:
            raise found

    executor: Any = SimpleNamespace(_db=SimpleNamespace(end_run=end_run), log=logging.getLogger("test"))
    end, lost = DeviceCeleryExecutor._end_run, Verdict.failed("serve", "lost")
    night, single = (job(LeaseRequest({}, recorded=recorded)) for recorded in (False, True))
    end(executor, JobKey("nightly.digits", "manual", 0), night, lost)
    assert asked == []
    if isinstance(found, PerfDBError):
        with pytest.raises(PerfDBError):
            end(executor, JobKey("digits", "manual", 0), single, lost)
    else:
        end(executor, JobKey("digits", "manual", 0), single, lost)
    assert len(asked) == 1
