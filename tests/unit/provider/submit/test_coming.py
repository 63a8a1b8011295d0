"""What was sent and is in no queue yet, on a database with Airflow's own tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from inferbench_tasks.provider.queues import HOLD
from tests.unit.provider.executors.conftest import NOON
from tests.unit.provider.executors.conftest import add as add

pytestmark = pytest.mark.airflow
DAG = "submitted.sweep.12345678"
Add = Any


@pytest.fixture(autouse=True)
def _asked_of_it(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow.utils.session.create_session", add.session)


def _jobs(add: Add, dag_id: str, **states: str | None) -> None:
    """A job for each keyword; its value: the state of the first of its two tasks on a device."""
    for job, state in states.items():
        group = job.replace("_", "-")
        add.task(dag_id, f"{group}.serve", state, queue=HOLD)
        add.task(dag_id, f"{group}.load", None, queue=HOLD)


def test_what_is_sent_is_told_from_the_moment_of_its_sending(add: Add) -> None:
    """First it waits to be read, then it is read; its login and its moment are those of the run of ``submit``."""
    from inferbench_tasks.provider.submit.coming import coming

    add("submit", "running", 5, triggering_user_name="ada", conf={"name": "quickstart"})
    add.task("submit", "validate", "queued", operator="ValidateSubmission")
    [one] = coming() or []
    assert (one.submission, one.login, one.jobs) == ("quickstart", "ada", None)
    assert one.sent.timestamp() == (NOON + timedelta(minutes=5)).timestamp()
    assert one.why.startswith("it waits to be read")


def test_jobs_whose_models_are_made_are_in_no_queue_yet(add: Add) -> None:
    """Of four jobs one has reached its device, one's first task there waits in the executor's queue: two are to come,
    of which one's conversion runs. The run of ``submit`` is the same submission, and no line of its own.
    """
    from inferbench_tasks.provider.submit.coming import coming

    add("submit", "running", 1, triggering_user_name="ada")
    add.task("submit", "validate", "success", operator="ValidateSubmission")
    add(DAG, "running", 3)
    _jobs(add, DAG, job_000="running", job_001="queued", job_002=None, job_003="scheduled")
    add.task(DAG, "job-002.convert", "running")
    add.task(DAG, "job-003.generate", None)
    [one] = coming() or []
    assert (one.submission, one.login, one.jobs) == ("sweep", "ada", 2)
    assert one.sent.timestamp() == (NOON + timedelta(minutes=1)).timestamp()
    assert one.why == "their models and requests are made: convert of 1 under way"


def test_what_is_in_the_queue_or_has_ended_is_not_told_twice(add: Add) -> None:
    """All jobs in the executor's queue, a job whose model could not be made, a DAG run that ended: none is to come;
    of a large submission the jobs of parts that have not begun are.
    """
    from inferbench_tasks.provider.submit.coming import coming

    add("queued", "running")
    _jobs(add, "queued", job_000="queued", job_001="upstream_failed")
    add("over", "failed")
    _jobs(add, "over", job_000=None)
    add("another-of-airflow", "running")
    assert coming() == []
    add("big", "running")
    add.task("big", "jobs-00000-00049", "deferred", operator="RunPart")
    add.task("big", "jobs-00050-00099", None, operator="RunPart")
    add("big..jobs-00000-00049", "running")
    _jobs(add, "big..jobs-00000-00049", job_000="running", job_001=None)
    assert [(one.submission, one.jobs) for one in coming() or []] == [("big", 51)]


def test_an_airflow_that_does_not_answer_is_told(add: Add) -> None:
    """None, which pages tell in words; no empty list, which would say that nothing waits."""
    from inferbench_tasks.provider.submit.coming import coming

    with add.session() as session:
        session.connection().exec_driver_sql("DROP TABLE task_instance")
    assert coming() is None
