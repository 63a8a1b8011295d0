"""What the executor reads of runs of parts, on a database with Airflow's own tables."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytestmark = pytest.mark.airflow

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUN = "manual__1"
FIRST, SECOND = "big..jobs-00000-00099", "big..jobs-00100-00199"
Add = Callable[..., None]


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Adds a DAG run to an empty database."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session
    from sqlalchemy.pool import StaticPool

    from inferbench_tasks.provider.executors import metadata

    engine = create_engine("sqlite://", poolclass=StaticPool)
    tables = [DagRun.metadata.tables[name] for name in ("dag_run", "log_template")]
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
