"""What the executor asks of Airflow's metadata database, and what it writes there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from airflow.models.dag import DagModel
from airflow.models.dagbag import DagPriorityParsingRequest
from airflow.models.dagrun import DagRun
from airflow.models.errors import ParseImportError
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.models.taskinstancekey import TaskInstanceKey
from airflow.utils.session import create_session
from airflow.utils.state import DagRunState, State, TaskInstanceState
from sqlalchemy import Select, func, select, update

from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.contracts.part import MARK, whole_of
from inferbench_tasks.plan.compile import group_id
from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest
from inferbench_tasks.provider.parts.operators import RunPart, jobs_of_task
from inferbench_tasks.provider.submit.notes import SUBMIT
from inferbench_tasks.provider.submit.shelf import PREFIX

#: A task that was sent goes on whatever becomes of its DAG run, until it notices.
_STARTED = (
    TaskInstanceState.QUEUED,
    TaskInstanceState.RUNNING,
    TaskInstanceState.RESTARTING,
    TaskInstanceState.DEFERRED,
)
_UNDER_WAY = (*_STARTED, TaskInstanceState.SCHEDULED, TaskInstanceState.UP_FOR_RETRY)
#: Of the parameters of one question.
MOST_ASKED = 2000
_NOT_BEGUN = (TaskInstanceState.SCHEDULED, TaskInstanceState.QUEUED, TaskInstanceState.UP_FOR_RETRY)
_UNFINISHED = (DagRunState.QUEUED, DagRunState.RUNNING)
_ENDED = (DagRunState.SUCCESS, DagRunState.FAILED)


@dataclass(frozen=True, slots=True)
class TaskState:
    """A task on a device; ``state`` is None where Airflow has not scheduled it yet."""

    task_id: str
    state: str | None
    attempt: int
    leased: LeasedTask
    id: str = ""
    """Of this try of the task."""

    @property
    def stage(self) -> str:
        """The stage that this task runs."""
        return self.leased.stage


@dataclass(frozen=True, slots=True)
class JobTasks:
    """A job's tasks on its device, in their order; ``ended``: so has their DAG run."""

    tasks: tuple[TaskState, ...]
    ended: bool = False

    @property
    def gone(self) -> bool:
        """The DAG run was deleted."""
        return not self.tasks

    @property
    def over(self) -> bool:
        """Nothing of it runs or will run: Airflow starts nothing in a DAG run that has ended."""
        if self.ended:
            return not any(task.state in _STARTED for task in self.tasks)
        return all(task.state in State.finished for task in self.tasks)

    @property
    def idle(self) -> bool:
        """Nothing of it runs or is about to: its DAG is paused, or its run was cleared and waits for others."""
        return not any(task.state in _UNDER_WAY for task in self.tasks)

    @property
    def begun(self) -> bool:
        """Something of it runs, or has run well."""
        return any(task.state in ("running", "success") for task in self.tasks)

    @property
    def succeeded(self) -> bool:
        """All of it has run well."""
        return all(task.state == "success" for task in self.tasks)

    @property
    def failed(self) -> TaskState | None:
        """The first task that failed."""
        return next((task for task in self.tasks if task.state == TaskInstanceState.FAILED), None)

    @property
    def ids(self) -> list[str]:
        """The task ids of all tasks of the job."""
        return [task.task_id for task in self.tasks]

    @property
    def work_ids(self) -> list[str]:
        """Of its tasks without the one that cleans up."""
        return [task.task_id for task in self.tasks if not task.leased.cleans_up]

    @property
    def request(self) -> LeaseRequest | None:
        """What the job asks for; None where it is gone."""
        return next((task.leased.request for task in self.tasks if task.leased.request), None)

    @property
    def recorded(self) -> bool:
        """Whether it is one run in PerfDB."""
        return self.request is None or self.request.recorded


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


def login(dag_id: str, dag_run_id: str) -> str | None:
    """Who started the run, by login; None for one that a schedule started. A run of a submission that came by the form
    or by REST has the login of the run of ``submit`` that started it, whose id it has; a part has its submission's."""
    whole = whole_of(dag_id)
    with create_session() as session:
        rows = session.execute(
            select(DagRun.dag_id, DagRun.triggering_user_name).where(
                DagRun.dag_id.in_((dag_id, whole, SUBMIT)), DagRun.run_id == dag_run_id
            )
        ).all()
    logins = {row.dag_id: row.triggering_user_name for row in rows}
    own = logins.get(dag_id) or logins.get(whole)
    return own or (logins.get(SUBMIT) if dag_id.startswith(PREFIX) else None)


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
                    DagRun.run_id.in_(runs), DagRun.state.in_(_ENDED)
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
    return _is_there(
        select(DagRun.run_id).where(
            DagRun.dag_id.startswith(dag_id + MARK, autoescape=True), DagRun.run_id == dag_run_id
        )
    )


def job_tasks(key: JobKey) -> JobTasks:
    """The tasks of one job."""
    with create_session() as session:
        rows = session.execute(
            select(
                TaskInstance.id,
                TaskInstance.task_id,
                TaskInstance.state,
                TaskInstance.try_number,
                TaskInstance.executor_config,
            ).where(
                TaskInstance.dag_id == key.dag_id,
                TaskInstance.run_id == key.dag_run_id,
                TaskInstance.task_id.startswith(f"{group_id(key.job_index)}.", autoescape=True),
            )
        ).all()
        state = session.scalar(
            select(DagRun.state).where(DagRun.dag_id == key.dag_id, DagRun.run_id == key.dag_run_id)
        )
    tasks = [
        TaskState(row.task_id, row.state, row.try_number, leased, str(row.id))
        for row in rows
        if (leased := LeasedTask.of(row.executor_config)) is not None
    ]
    return JobTasks(tuple(sorted(tasks, key=lambda task: task.leased.position)), state in _ENDED)


def seen_again(seen: Mapping[JobKey, JobTasks]) -> dict[JobKey, JobTasks]:
    """The same jobs' tasks as they are now, in a few questions for all of them: what a task is does not change.

    A job of which a task is another one by now (it is tried again, or was cleared) is asked for by itself.
    """
    ids = [task.id for tasks in seen.values() for task in tasks.tasks]
    runs = {(key.dag_id, key.dag_run_id) for key in seen}
    columns = TaskInstance.id, TaskInstance.state, TaskInstance.try_number
    now: dict[str, tuple[str | None, int]] = {}
    ended: set[tuple[str, str]] = set()
    with create_session() as session:
        for some in _some(ids):
            rows = session.execute(select(*columns).where(TaskInstance.id.in_([UUID(i) for i in some])))
            now |= {str(row.id): (row.state, row.try_number) for row in rows}
        for some in _some(sorted({run_id for _, run_id in runs})):
            over = select(DagRun.dag_id, DagRun.run_id).where(
                DagRun.run_id.in_(some), DagRun.state.in_(_ENDED)
            )
            ended |= {(row.dag_id, row.run_id) for row in session.execute(over)}
    again = {}
    for key, tasks in seen.items():
        if not tasks.tasks or any(task.id not in now for task in tasks.tasks):
            again[key] = job_tasks(key)
            continue
        states = tuple(replace(task, state=now[task.id][0], attempt=now[task.id][1]) for task in tasks.tasks)
        again[key] = JobTasks(states, (key.dag_id, key.dag_run_id) in ended)
    return again


def _some(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """A question has at most so many parameters (32,766 on SQLite, 65,535 on PostgreSQL)."""
    return (values[first : first + MOST_ASKED] for first in range(0, len(values), MOST_ASKED))


def ended_between(since: datetime, until: datetime) -> list[tuple[str, str]]:
    """(DAG id, run id) of the runs that ended in that time and have not begun again."""
    with create_session() as session:
        rows = session.execute(
            select(DagRun.dag_id, DagRun.run_id).where(
                DagRun.state.in_(_ENDED), DagRun.end_date >= since, DagRun.end_date < until
            )
        ).all()
    return [(row.dag_id, row.run_id) for row in rows]


def ended_by_user(key: JobKey) -> bool:
    """Whether its user marked the DAG run: Airflow then skips what had not begun, and nothing else of ours is skipped.

    That the DAG run has ended does not tell: it does so too when a task was killed and nobody looked for a while.
    """
    return _is_there(
        select(TaskInstance.task_id).where(
            TaskInstance.dag_id == key.dag_id,
            TaskInstance.run_id == key.dag_run_id,
            TaskInstance.state == TaskInstanceState.SKIPPED,
        )
    )


def given_up(key: JobKey, task: TaskState) -> bool:
    """Whether Airflow ended a try by itself: its heartbeat did not come through (the api-server was away, or the task
    was killed), or its worker says that it ended without a word."""
    return _is_there(
        select(Log.event).where(
            Log.dag_id == key.dag_id,
            Log.run_id == key.dag_run_id,
            Log.task_id == task.task_id,
            Log.try_number == task.attempt,
            Log.event.in_(("heartbeat timeout", "state mismatch")),
        )
    )


def _is_there(query: Select[Any]) -> bool:
    with create_session() as session:
        return session.scalar(query.limit(1)) is not None


def not_queued(ids: Sequence[Any]) -> set[Any]:
    """Those of these task instances that are in another state, or there no more."""
    others: set[Any] = set()
    with create_session() as session:
        for some in _some(ids):
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


def last_read() -> dict[str, tuple[float, float]]:
    """DAG file -> (when it was last read to its end, when that reading began), for each that has DAGs; Unix time."""
    with create_session() as session:
        rows = session.execute(
            select(DagModel.relative_fileloc, DagModel.last_parsed_time, DagModel.last_parse_duration).where(
                DagModel.last_parsed_time.is_not(None)
            )
        ).all()
    moments: dict[str, tuple[float, float]] = {}
    for name, end, seconds in rows:
        assert end is not None  # see the query
        reading = (end.timestamp(), end.timestamp() - (seconds or 0.0))
        moments[str(name)] = max(moments.get(str(name), reading), reading)
    return moments


def read_again(dag_files: Iterable[str], known: frozenset[str]) -> None:
    """Ask the dag-processor to read these files of the DAGs folder now; ``known``: all that are ours.

    It looks at its folder anew for that, and forgets the import errors of what it does not find there: the broken
    YAMLs. Then all files are read again, so that they come back.
    """
    names = set(dag_files)
    if not names:
        return
    with create_session() as session:
        broken = session.scalars(select(ParseImportError.filename)).all()
        if any(str(name).endswith((".yaml", ".yml")) for name in broken):
            names |= known
        requested = set(session.scalars(select(DagPriorityParsingRequest.relative_fileloc)).all())
        for name in sorted(names - requested):
            session.add(DagPriorityParsingRequest("dags-folder", name))


def fail_tasks(key: JobKey, task_ids: Iterable[str]) -> None:
    """Fail those of these tasks that a job still has to do."""
    with create_session() as session:
        for ti in _tasks(key, session, task_ids):
            if ti.state not in State.finished:
                ti.set_state(TaskInstanceState.FAILED, session=session)


def run_again(key: JobKey, tasks: JobTasks) -> None:
    """Clear a job's tasks on its device, and what followed them: it waits for a device again."""
    followers = tasks.request.followers if tasks.request else []
    with create_session() as session:
        finished = [ti for ti in _tasks(key, session, followers) if ti.state is not None]
        clear_task_instances([*_tasks(key, session, tasks.ids), *finished], session)


def _tasks(key: JobKey, session: Any, task_ids: Iterable[str]) -> list[TaskInstance]:
    return list(
        session.scalars(
            select(TaskInstance).where(
                TaskInstance.dag_id == key.dag_id,
                TaskInstance.run_id == key.dag_run_id,
                TaskInstance.task_id.in_(list(task_ids)),
            )
        )
    )
