"""In which queue Airflow's tasks are, and in which order: what the executor asks of that and writes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.models.taskinstancekey import TaskInstanceKey
from airflow.utils.session import create_session
from airflow.utils.state import TaskInstanceState
from sqlalchemy import func, select, update

from inferbench_tasks.provider.executors.metadata import in_questions


def not_queued(ids: Sequence[Any]) -> set[Any]:
    """Those of these task instances that are in another state, or there no more."""
    others: set[Any] = set()
    with create_session() as session:
        for some in in_questions(ids):
            queued = TaskInstance.id.in_(some), TaskInstance.state == TaskInstanceState.QUEUED
            # Usually all of them are: to count is a tenth of the work of reading them.
            if session.scalar(select(func.count()).where(*queued)) != len(some):
                others |= set(some) - set(session.scalars(select(TaskInstance.id).where(*queued)))
    return others


def queued(keys: Iterable[TaskInstanceKey]) -> dict[TaskInstanceKey, str]:
    """Task -> queue, of those that have not started."""
    queues = {}
    with create_session() as session:
        for key in keys:
            queue = session.scalar(
                select(TaskInstance.queue).where(*_is(key), TaskInstance.state == TaskInstanceState.QUEUED)
            )
            if queue is not None:
                queues[key] = queue
    return queues


def schedule_again(key: TaskInstanceKey) -> None:
    """The scheduler is to queue the task anew, unless it has started meanwhile."""
    with create_session() as session:
        session.execute(
            update(TaskInstance)
            .where(*_is(key), TaskInstance.state == TaskInstanceState.QUEUED)
            .values(state=TaskInstanceState.SCHEDULED)
        )


def _is(key: TaskInstanceKey) -> tuple[Any, ...]:
    return (
        TaskInstance.dag_id == key.dag_id,
        TaskInstance.run_id == key.run_id,
        TaskInstance.task_id == key.task_id,
        TaskInstance.map_index == key.map_index,
    )


def set_queues(queues: Iterable[tuple[Any, str]]) -> None:
    """Of tasks by id, so that Airflow's UI and REST show where they really run."""
    with create_session() as session:
        for ti_id, queue in queues:
            session.execute(update(TaskInstance).where(TaskInstance.id == ti_id).values(queue=queue))


def set_weights(weights: Iterable[tuple[Any, int]]) -> None:
    """Of tasks by id, so that Airflow shows the order in which jobs start: by estimate and by priority."""
    with create_session() as session:
        for ti_id, weight in weights:
            session.execute(
                update(TaskInstance).where(TaskInstance.id == ti_id).values(priority_weight=weight)
            )
