"""What the executor asks of Airflow's metadata database, and what it writes there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow.models.dag import DagModel
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.dagrun import DagRun
from airflow.models.errors import ParseImportError
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.models.taskinstancekey import TaskInstanceKey
from airflow.utils.session import create_session
from airflow.utils.state import State, TaskInstanceState
from sqlalchemy import Select, select, update

from inferbench_tasks.plan.compile import LEASED
from inferbench_tasks.provider.executors.jobs import TaskRef


@dataclass(frozen=True, slots=True)
class TaskStates:
    """The states of a job's tasks that run on its device; None where Airflow has not scheduled one yet."""

    by_stage: Mapping[str, str | None]
    tries: Mapping[str, int]

    @property
    def gone(self) -> bool:
        """The DAG run was deleted."""
        return not self.by_stage

    @property
    def over(self) -> bool:
        """Nothing of it runs or will run."""
        return all(state in State.finished for state in self.by_stage.values())

    @property
    def failed_stage(self) -> str | None:
        """The first stage that failed."""
        for stage in ("serve", "load", "collect", "release"):
            if self.by_stage.get(stage) == TaskInstanceState.FAILED:
                return stage
        return None


def trigger(dag_id: str, dag_run_id: str) -> tuple[dict[str, Any], float]:
    """(what the trigger changed, when the run was asked for in Unix time)."""
    with create_session() as session:
        run = session.execute(
            select(DagRun.conf, DagRun.queued_at, DagRun.run_after).where(
                DagRun.dag_id == dag_id, DagRun.run_id == dag_run_id
            )
        ).one()
    return dict(run.conf or {}), (run.queued_at or run.run_after).timestamp()


def task_states(ref: TaskRef) -> TaskStates:
    """Of one job."""
    stages = {ref.task_id(stage): stage for stage in LEASED}
    with create_session() as session:
        rows = session.execute(
            select(TaskInstance.task_id, TaskInstance.state, TaskInstance.try_number).where(
                TaskInstance.dag_id == ref.dag_id,
                TaskInstance.run_id == ref.dag_run_id,
                TaskInstance.task_id.in_(stages),
            )
        ).all()
    return TaskStates(
        {stages[r.task_id]: r.state for r in rows}, {stages[r.task_id]: r.try_number for r in rows}
    )


def ended_by_user(ref: TaskRef) -> bool:
    """Whether its user marked the DAG run: Airflow then skips what had not begun, and nothing else of ours is skipped.

    That the DAG run has ended does not tell: it does so too when a task was killed and nobody looked for a while.
    """
    return _is_there(
        select(TaskInstance.task_id).where(
            TaskInstance.dag_id == ref.dag_id,
            TaskInstance.run_id == ref.dag_run_id,
            TaskInstance.state == TaskInstanceState.SKIPPED,
        )
    )


def given_up(ref: TaskRef, stage: str, attempt: int) -> bool:
    """Whether Airflow ended a try by itself: its heartbeat did not come through (the api-server was away, or the task
    was killed), or its worker says that it ended without a word."""
    return _is_there(
        select(Log.event).where(
            Log.dag_id == ref.dag_id,
            Log.run_id == ref.dag_run_id,
            Log.task_id == ref.task_id(stage),
            Log.try_number == attempt,
            Log.event.in_(("heartbeat timeout", "state mismatch")),
        )
    )


def _is_there(query: Select[Any]) -> bool:
    with create_session() as session:
        return session.scalar(query.limit(1)) is not None


def states_of(ids: Iterable[Any]) -> dict[str, str | None]:
    """Task instance id -> state."""
    with create_session() as session:
        rows = session.execute(
            select(TaskInstance.id, TaskInstance.state).where(TaskInstance.id.in_(list(ids)))
        ).all()
    return {str(r.id): r.state for r in rows}


def queued(keys: Iterable[TaskInstanceKey]) -> dict[TaskInstanceKey, str]:
    """Task -> queue, of those that have not started."""
    found = {}
    with create_session() as session:
        for key in keys:
            queue = session.scalar(
                select(TaskInstance.queue).where(*_is(key), TaskInstance.state == TaskInstanceState.QUEUED)
            )
            if queue is not None:
                found[key] = queue
    return found


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


def set_queue(ti_id: Any, queue: str) -> None:
    """So that Airflow's UI and REST show where the task really runs."""
    with create_session() as session:
        session.execute(update(TaskInstance).where(TaskInstance.id == ti_id).values(queue=queue))


def set_weight(ti_id: Any, weight: int) -> None:
    """So that Airflow shows the order in which jobs start, estimates and the trigger's priority in it."""
    with create_session() as session:
        session.execute(update(TaskInstance).where(TaskInstance.id == ti_id).values(priority_weight=weight))


def last_read() -> dict[str, tuple[float, float]]:
    """DAG file -> (when it was last read to its end, when that reading began), for each that has DAGs; Unix time."""
    with create_session() as session:
        rows = session.execute(
            select(DagModel.relative_fileloc, DagModel.last_parsed_time, DagModel.last_parse_duration).where(
                DagModel.last_parsed_time.is_not(None)
            )
        ).all()
    found: dict[str, tuple[float, float]] = {}
    for name, end, seconds in rows:
        assert end is not None  # see the query
        read = (end.timestamp(), end.timestamp() - (seconds or 0.0))
        found[str(name)] = max(found.get(str(name), read), read)
    return found


def read_again(dag_files: Iterable[str], known: frozenset[str]) -> None:
    """Ask the dag-processor to read these files of the DAGs folder now; ``known``: all that are ours.

    It looks at its folder anew for that, and forgets the import errors of what it does not find there: the broken
    YAMLs. Then all files are read again, so that they come back.
    """
    wanted = set(dag_files)
    if not wanted:
        return
    with create_session() as session:
        broken = session.scalars(select(ParseImportError.filename)).all()
        if any(str(name).endswith((".yaml", ".yml")) for name in broken):
            wanted |= known
        asked = set(session.scalars(select(DagPriorityParsingRequest.relative_fileloc)).all())
        for name in sorted(wanted - asked):
            session.add(DagPriorityParsingRequest("dags-folder", name))


def fail_tasks(ref: TaskRef, stages: Iterable[str]) -> None:
    """Fail what a job still has to do in these stages."""
    with create_session() as session:
        for ti in _tasks(ref, session, stages):
            if ti.state not in State.finished:
                ti.set_state(TaskInstanceState.FAILED, session=session)


def run_again(ref: TaskRef) -> None:
    """Clear a job's tasks on its device, and what follows them: it waits for a device again."""
    with create_session() as session:
        clear_task_instances([*_tasks(ref, session, LEASED), *_after(ref, session)], session)


def _tasks(ref: TaskRef, session: Any, stages: Iterable[str]) -> list[TaskInstance]:
    return list(
        session.scalars(
            select(TaskInstance).where(
                TaskInstance.dag_id == ref.dag_id,
                TaskInstance.run_id == ref.dag_run_id,
                TaskInstance.task_id.in_([ref.task_id(stage) for stage in stages]),
            )
        )
    )


def _after(ref: TaskRef, session: Any) -> list[TaskInstance]:
    return list(
        session.scalars(
            select(TaskInstance).where(
                TaskInstance.dag_id == ref.dag_id,
                TaskInstance.run_id == ref.dag_run_id,
                TaskInstance.task_id.in_(("analyze", "verdict")),
                TaskInstance.state.is_not(None),
            )
        )
    )
