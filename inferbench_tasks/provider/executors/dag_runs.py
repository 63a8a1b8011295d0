"""What the executor asks of Airflow's DAG runs: who started them, which go on, which have ended."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, TaskInstanceState
from sqlalchemy import select

from inferbench_tasks.contracts.part import MARK, whole_of
from inferbench_tasks.provider.executors.metadata import ENDED, is_there
from inferbench_tasks.provider.parts.operators import RunPart, jobs_of_task
from inferbench_tasks.provider.submit.notes import STARTED_BY, SUBMIT
from inferbench_tasks.provider.submit.shelf import PREFIX

_UNFINISHED = (DagRunState.QUEUED, DagRunState.RUNNING)

_NOT_BEGUN = (TaskInstanceState.SCHEDULED, TaskInstanceState.QUEUED, TaskInstanceState.UP_FOR_RETRY)


def trigger(dag_id: str, dag_run_id: str) -> tuple[dict[str, Any], float]:
    """(what the trigger changed, when the run was asked for in Unix time).

    Jobs of a part were asked for with the whole submission, whenever their part began.
    """
    with create_session() as session:
        rows = session.execute(
            select(DagRun.dag_id, DagRun.conf, DagRun.queued_at, DagRun.run_after).where(
                DagRun.dag_id.in_((dag_id, whole_of(dag_id))), DagRun.run_id == dag_run_id
            )
        ).all()
    [conf] = [row.conf for row in rows if row.dag_id == dag_id]
    return dict(conf or {}), min((row.queued_at or row.run_after).timestamp() for row in rows)


def left_by(dag_id: str, dag_run_id: str, task_id: str) -> Any:
    """What a task of the run returned; None where it has not, or returned nothing."""
    with create_session() as session:
        row = session.scalar(
            select(XComModel)
            .where(
                XComModel.dag_id == dag_id,
                XComModel.run_id == dag_run_id,
                XComModel.task_id == task_id,
                XComModel.key == "return_value",
            )
            .limit(1)
        )
        return None if row is None else XComModel.deserialize_value(row)


def login(dag_id: str, dag_run_id: str) -> str | None:
    """Who started the run, by login; None for one that a schedule started. A run of a submission that came by the form
    or by REST has the login of the run of ``submit`` that started it, whose id it has; a part has its submission's."""
    whole = whole_of(dag_id)
    # A file of the submissions folder that asks for systems is submitted by the DAG that has its name.
    starting = (SUBMIT, whole.removeprefix(PREFIX).rpartition(".")[0]) if whole.startswith(PREFIX) else ()
    with create_session() as session:
        rows = session.execute(
            select(DagRun.dag_id, DagRun.triggering_user_name, DagRun.conf).where(
                DagRun.dag_id.in_((dag_id, whole, *starting)), DagRun.run_id == dag_run_id
            )
        ).all()
    logins = {row.dag_id: row.triggering_user_name for row in rows}
    # Ids are a DAG's own: a run of the same id in the other one may be somebody else's.
    confs = {row.dag_id: row.conf or {} for row in rows}
    by = str(confs.get(whole, {}).get(STARTED_BY) or SUBMIT)
    starters = (by,) if by in starting else ()
    return next((found for each in (dag_id, whole, *starters) if (found := logins.get(each))), None)


def unfinished(prefix: str = "", within: str = "") -> list[str]:
    """The DAGs whose ids begin so, and hold the other text, and that have a run that is queued or running."""
    with create_session() as session:
        query = (
            select(DagRun.dag_id)
            .where(
                DagRun.state.in_(_UNFINISHED),
                DagRun.dag_id.startswith(prefix, autoescape=True),
                DagRun.dag_id.contains(within, autoescape=True),
            )
            .distinct()
        )
        return list(session.scalars(query))


def left_behind() -> list[tuple[str, str]]:
    """(DAG id, run id) of the parts that go on though the run of their submission was ended meanwhile, by a user.

    A part that was begun anew after that goes on by itself.
    """
    columns = (DagRun.dag_id, DagRun.run_id, DagRun.queued_at)
    with create_session() as session:
        parts = session.execute(
            select(*columns).where(
                DagRun.state.in_(_UNFINISHED), DagRun.dag_id.contains(MARK, autoescape=True)
            )
        ).all()
        runs = {row.run_id for row in parts}
        ended = {
            (row.dag_id, row.run_id): row.end_date
            for row in session.execute(
                select(DagRun.dag_id, DagRun.run_id, DagRun.end_date).where(
                    DagRun.run_id.in_(runs), DagRun.state.in_(ENDED)
                )
            )
        }
    return [
        (row.dag_id, row.run_id)
        for row in parts
        if (end := ended.get((whole_of(row.dag_id), row.run_id))) and (row.queued_at or end) <= end
    ]


def jobs_to_come() -> Counter[str]:
    """Login -> jobs of its submissions whose parts have not begun: they wait, and no executor has seen them."""
    with create_session() as session:
        rows = session.execute(
            select(TaskInstance.dag_id, TaskInstance.run_id, TaskInstance.task_id)
            .join(DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id))
            .where(
                DagRun.state.in_(_UNFINISHED),
                TaskInstance.operator == RunPart.__name__,
                TaskInstance.state.is_(None) | TaskInstance.state.in_(_NOT_BEGUN),
            )
        ).all()
    jobs: Counter[tuple[str, str]] = Counter()
    for row in rows:
        jobs[row.dag_id, row.run_id] += len(jobs_of_task(row.task_id))
    come: Counter[str] = Counter()
    for run, count in jobs.items():
        if asker := login(*run):
            come[asker] += count
    return come


def has_parts(dag_id: str, dag_run_id: str) -> bool:
    """Whether a run is that of a submission in parts, of which one has begun."""
    return is_there(
        select(DagRun.run_id).where(
            DagRun.dag_id.startswith(dag_id + MARK, autoescape=True), DagRun.run_id == dag_run_id
        )
    )


def ended_between(since: datetime, until: datetime) -> list[tuple[str, str]]:
    """(DAG id, run id) of the runs that ended in that time and have not begun again."""
    with create_session() as session:
        rows = session.execute(
            select(DagRun.dag_id, DagRun.run_id).where(
                DagRun.state.in_(ENDED), DagRun.end_date >= since, DagRun.end_date < until
            )
        ).all()
    return [(row.dag_id, row.run_id) for row in rows]
