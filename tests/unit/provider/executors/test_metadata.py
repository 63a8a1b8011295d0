"""What the executor reads of runs of parts, on a database with Airflow's own tables."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest

pytestmark = pytest.mark.airflow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUN = "manual__1"
FIRST, SECOND = "big..jobs-00000-00099", "big..jobs-00100-00199"
Add = Any


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Adds a DAG run to an empty database."""
    from airflow.models import import_all_models
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session
    from sqlalchemy.pool import StaticPool

    from inferbench_tasks.provider.executors import metadata

    import_all_models()  # type: ignore[no-untyped-call]  # tables refer to each other
    engine = create_engine("sqlite://", poolclass=StaticPool)
    tables = [DagRun.metadata.tables[name] for name in ("dag_run", "log_template", "task_instance")]
    DagRun.metadata.create_all(engine, tables=tables)

    @contextmanager
    def create_session() -> Any:
        with Session(engine) as session, session.begin():
            yield session

    monkeypatch.setattr(metadata, "create_session", create_session)

    def add(dag_id: str, state: str, minutes: float = 0, run: str = RUN, **more: Any) -> None:
        at = NOON + timedelta(minutes=minutes)
        row = {"run_type": "manual", "queued_at": at, "run_after": at, "conf": {}, **more}
        row |= {"dag_id": dag_id, "run_id": run, "state": state}
        with create_session() as session:
            session.execute(DagRun.__table__.insert().values(**row))

    def add_task(dag_id: str, task_id: str, state: str | None, **more: Any) -> UUID:
        row = {"id": uuid4(), "dag_id": dag_id, "run_id": RUN, "task_id": task_id, "state": state}
        row |= {
            "try_number": 1,
            "max_tries": 0,
            "pool": "default_pool",
            "pool_slots": 1,
            "queue": "host",
            "map_index": -1,
        }
        row |= {"priority_weight": 1, "executor_config": {}, "operator": "StageOperator", **more}
        with create_session() as session:
            session.execute(TaskInstance.__table__.insert().values(**row))
        return row["id"]  # type: ignore[return-value]

    add.task = add_task  # type: ignore[attr-defined]
    add.session = create_session  # type: ignore[attr-defined]
    yield add
    engine.dispose()


def test_jobs_of_a_part_were_asked_for_with_their_submission(add: Add) -> None:
    """Their age and deadline count from there; what they were asked is their own run's."""
    from inferbench_tasks.provider.executors import metadata

    add("big", "running", 0, conf={"user": "me"})
    add(SECOND, "running", 45, conf={"user": "me", "priority": 2})
    add("big", "running", -99, run="another")
    assert metadata.trigger(SECOND, RUN) == ({"user": "me", "priority": 2}, NOON.timestamp())
    assert metadata.trigger("big", RUN) == ({"user": "me"}, NOON.timestamp())


def test_a_part_is_its_submission_s_login_s(add: Add) -> None:
    """Whoever asked for the submission, by the form too; another's run of the same DAG is another's."""
    from inferbench_tasks.provider.executors import metadata

    add("big", "running", triggering_user_name="ada")
    add(SECOND, "running")
    add("submitted.x.1", "running")
    add("submitted.x.1..jobs-00000-00099", "running")
    add("submit", "running", triggering_user_name="bob")
    add("big", "running", run="another", triggering_user_name="eve")
    assert metadata.login(SECOND, RUN) == "ada"
    assert metadata.login("submitted.x.1..jobs-00000-00099", RUN) == "bob"
    assert metadata.login("scheduled", RUN) is None


def test_parts_that_are_under_way_are_known(add: Add) -> None:
    """By the mark in their name; and those of submissions that came by the form, parts or not, by how theirs begin."""
    from inferbench_tasks.provider.executors import metadata

    add("big", "running")
    add(FIRST, "success")
    add(SECOND, "queued")
    add("submitted.x.1", "running")
    assert metadata.unfinished(within="..jobs-") == [SECOND]
    assert metadata.unfinished("submitted.") == ["submitted.x.1"]
    assert metadata.has_parts("big", RUN)
    assert not metadata.has_parts("big", "another")
    assert not metadata.has_parts("bi", RUN)


def test_a_part_whose_submission_was_ended_is_left_behind(add: Add) -> None:
    """Not while that goes on, not one that was begun anew afterwards, and not one of another run."""
    from inferbench_tasks.provider.executors import metadata

    end = NOON + timedelta(minutes=30)
    add("big", "failed", 0, end_date=end)
    add(FIRST, "success", 1)
    add(SECOND, "running", 20)
    add("big..jobs-00200-00299", "queued", 40)
    add("big", "running", 0, run="another")
    add(SECOND, "running", 20, run="another")
    assert metadata.left_behind() == [(SECOND, RUN)]


def test_jobs_of_parts_that_have_not_begun_are_their_login_s(add: Add) -> None:
    """Those that have begun wait in the executor; what has ended does not wait; a schedule's are nobody's."""
    from inferbench_tasks.provider.executors import metadata

    add("big", "running", triggering_user_name="ada")
    add("other", "running")
    add("over", "success", triggering_user_name="ada")
    for dag in ("big", "other", "over"):
        add.task(dag, "jobs-00000-00049", "deferred", operator="RunPart")
        add.task(dag, "jobs-00050-00099", "queued", operator="RunPart")
        add.task(dag, "jobs-00100-00104", None, operator="RunPart")
        add.task(dag, "analyze", None)
    assert metadata.jobs_to_come() == {"ada": 55}


def test_what_was_seen_is_seen_again_as_it_is_now(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    """States, tries and the run's end; a task that is another one by now has its job asked for anew."""
    from airflow.models.taskinstance import TaskInstance
    from sqlalchemy import update

    from inferbench_tasks.provider.executors import metadata

    keys = [JobKey("dag", RUN, index) for index in range(3)]
    add("dag", "running")
    ids = {}
    for key in keys:
        for place, stage in enumerate(("serve", "release")):
            request = LeaseRequest({"kind": "serving"}) if not place else None
            config = LeasedTask(key.job_index, stage, place, cleans_up=bool(place), request=request).config()
            task = f"job-{key.job_index:03d}.{stage}"
            ids[task] = add.task("dag", task, "queued" if not place else None, executor_config=config)
    first = {key: metadata.job_tasks(key) for key in keys}
    assert metadata.seen_again(first) == first

    def change(task: str, **values: Any) -> None:
        with add.session() as session:
            session.execute(update(TaskInstance).where(TaskInstance.id == ids[task]).values(**values))

    change("job-000.serve", state="running", try_number=2)
    change("job-001.release", state="success", id=uuid4())
    again = metadata.seen_again(first)
    assert again == {key: metadata.job_tasks(key) for key in keys}
    assert again[keys[0]].begun and again[keys[0]].tasks[0].attempt == 2
    assert [task.state for task in again[keys[1]].tasks] == ["queued", "success"]
    assert again[keys[2]] == first[keys[2]]
    monkeypatch.setattr(metadata, "MOST_ASKED", 1)
    assert metadata.seen_again(first) == again, "in many questions as in one"


def test_what_is_queued_no_more_is_found(add: Add, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among many that are, in one question or several: what a user ended, and what was deleted."""
    from inferbench_tasks.provider.executors import metadata

    add("dag", "running")
    queued = [add.task("dag", f"job-{number:03d}.serve", "queued") for number in range(7)]
    skipped, deleted = add.task("dag", "job-008.serve", "skipped"), uuid4()
    assert metadata.not_queued([]) == set() == metadata.not_queued(queued)
    for most in (2000, 3, 1):
        monkeypatch.setattr(metadata, "MOST_ASKED", most)
        assert metadata.not_queued([*queued[:4], skipped, *queued[4:], deleted]) == {skipped, deleted}
