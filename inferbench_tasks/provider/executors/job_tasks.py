"""A job's tasks on its device, as Airflow has them: their states, how they ended, and what makes them begin again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from airflow.models.dagrun import DagRun
from airflow.models.log import Log
from airflow.models.taskinstance import TaskInstance, clear_task_instances
from airflow.utils.session import create_session
from airflow.utils.state import State, TaskInstanceState
from sqlalchemy import select

from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.plan.compile import group_id
from inferbench_tasks.provider.executors.metadata import ENDED, in_questions, is_there
from inferbench_tasks.provider.on_device import LeasedTask, LeaseRequest

#: A task that was sent goes on whatever becomes of its DAG run, until it notices.
_STARTED = (
    TaskInstanceState.QUEUED,
    TaskInstanceState.RUNNING,
    TaskInstanceState.RESTARTING,
    TaskInstanceState.DEFERRED,
)

_UNDER_WAY = (*_STARTED, TaskInstanceState.SCHEDULED, TaskInstanceState.UP_FOR_RETRY)


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
    return JobTasks(tuple(sorted(tasks, key=lambda task: task.leased.position)), state in ENDED)


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
        for some in in_questions(ids):
            rows = session.execute(select(*columns).where(TaskInstance.id.in_([UUID(i) for i in some])))
            now |= {str(row.id): (row.state, row.try_number) for row in rows}
        for some in in_questions(sorted({run_id for _, run_id in runs})):
            over = select(DagRun.dag_id, DagRun.run_id).where(
                DagRun.run_id.in_(some), DagRun.state.in_(ENDED)
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


def ended_by_user(key: JobKey) -> bool:
    """Whether its user marked the DAG run: Airflow then skips what had not begun, and nothing else of ours is skipped.

    That the DAG run has ended does not tell: it does so too when a task was killed and nobody looked for a while.
    """
    return is_there(
        select(TaskInstance.task_id).where(
            TaskInstance.dag_id == key.dag_id,
            TaskInstance.run_id == key.dag_run_id,
            TaskInstance.state == TaskInstanceState.SKIPPED,
        )
    )


def given_up(key: JobKey, task: TaskState) -> bool:
    """Whether Airflow ended a try by itself: its heartbeat did not come through (the api-server was away, or the task
    was killed), or its worker says that it ended without a word."""
    return is_there(
        select(Log.event).where(
            Log.dag_id == key.dag_id,
            Log.run_id == key.dag_run_id,
            Log.task_id == task.task_id,
            Log.try_number == task.attempt,
            Log.event.in_(("heartbeat timeout", "state mismatch")),
        )
    )


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
