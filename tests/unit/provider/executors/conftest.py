"""What the executor asks Airflow's metadata database is asked of one that a test fills."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUN = "manual__1"


@pytest.fixture
def add(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Adds a DAG run to an empty database with Airflow's own tables; ``add.task`` a task, ``add.xcom`` what it left."""
    from airflow.models import import_all_models
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.models.xcom import XComModel
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session
    from sqlalchemy.pool import StaticPool

    from inferbench_tasks.provider.executors import dag_runs, job_tasks, metadata, task_queues

    import_all_models()  # type: ignore[no-untyped-call]  # tables refer to each other
    engine = create_engine("sqlite://", poolclass=StaticPool)
    tables = [DagRun.metadata.tables[name] for name in ("dag_run", "log_template", "task_instance", "xcom")]
    DagRun.metadata.create_all(engine, tables=tables)

    @contextmanager
    def create_session() -> Any:
        with Session(engine) as session, session.begin():
            yield session

    for module in (dag_runs, job_tasks, metadata, task_queues):
        monkeypatch.setattr(module, "create_session", create_session)

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

    def add_xcom(dag_id: str, task_id: str, value: Any, key: str = "return_value") -> None:
        row = {"dag_run_id": 1, "dag_id": dag_id, "run_id": RUN, "task_id": task_id, "map_index": -1}
        row |= {"key": key, "timestamp": NOON, "value": value}
        with create_session() as session:
            session.execute(XComModel.__table__.insert().values(**row))

    add.xcom = add_xcom  # type: ignore[attr-defined]
    add.task = add_task  # type: ignore[attr-defined]
    add.session = create_session  # type: ignore[attr-defined]
    yield add
    engine.dispose()
