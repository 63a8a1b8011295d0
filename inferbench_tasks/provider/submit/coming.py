"""What was sent and is no job in a queue yet: submissions that are read, and jobs whose models are still made.

A job is in the queue of PerfDB once Airflow lets its first task on a device begin; before that only Airflow's own
database knows of it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from inferbench_tasks.contracts.part import whole_of
from inferbench_tasks.provider.queues import HOLD
from inferbench_tasks.provider.submit.ending import UNFINISHED
from inferbench_tasks.provider.submit.notes import SUBMIT
from inferbench_tasks.provider.submit.shelf import PREFIX

#: Runs of DAGs that are looked at, the oldest first, and tasks of them: pages ask every other second.
MOST_RUNS, MOST_TASKS = 100, 10_000
#: States of a task that no worker and no queue of devices has.
_NOT_BEGUN = (None, "scheduled")
#: Operators, by the name that Airflow keeps, of a stage and of a part.
_STAGE, _PART = "StageOperator", "RunPart"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Coming:
    """``jobs`` of a submission that are in no queue yet, None while it is being read; ``why`` in words."""

    submission: str
    login: str | None
    sent: datetime
    jobs: int | None
    why: str


@dataclass(slots=True)
class _Sent:
    """One submission: the runs of DAGs that have the same id, and what their tasks do."""

    sent: datetime
    login: str | None = None
    dag_id: str | None = None
    name: str = ""
    #: Of the tasks of ``submit``, by name.
    reading: dict[str, str | None] = field(default_factory=dict)
    #: Job -> whether any of its tasks on a device has begun.
    reached: dict[tuple[str, str], bool] = field(default_factory=dict)
    of_parts: int = 0
    stages: Counter[str] = field(default_factory=Counter)


def coming() -> list[Coming] | None:
    """The oldest first; None where Airflow's database can't be asked, which is logged."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        runs, tasks = _asked()
    except SQLAlchemyError as error:
        log.warning("Airflow's database can't be asked what was sent: %s", str(error).splitlines()[0])
        return None
    return told(runs, tasks)


def _asked() -> tuple[list[Any], list[Any]]:
    """Runs of DAGs that have not ended; of their tasks those on devices, those of ``submit``, and those that run."""
    from airflow.models.dagrun import DagRun
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import or_, select

    columns = (DagRun.queued_at, DagRun.run_after, DagRun.triggering_user_name, DagRun.conf)
    with create_session() as session:
        runs = session.execute(
            select(DagRun.dag_id, DagRun.run_id, *columns)
            .where(DagRun.state.in_(UNFINISHED))
            .order_by(DagRun.id)
            .limit(MOST_RUNS)
        ).all()
        tasks = session.execute(
            select(
                TaskInstance.dag_id,
                TaskInstance.run_id,
                TaskInstance.task_id,
                TaskInstance.state,
                TaskInstance.queue,
                TaskInstance.operator,
            )
            .join(DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id))
            .where(
                DagRun.id.in_(
                    select(DagRun.id).where(DagRun.state.in_(UNFINISHED)).order_by(DagRun.id).limit(MOST_RUNS)
                ),
                or_(
                    TaskInstance.dag_id == SUBMIT,
                    TaskInstance.operator == _PART,
                    (TaskInstance.operator == _STAGE)
                    & ((TaskInstance.queue == HOLD) | (TaskInstance.state == "running")),
                ),
            )
            .limit(MOST_TASKS)
        ).all()
    return list(runs), list(tasks)


def told(runs: Iterable[Any], tasks: Iterable[Any]) -> list[Coming]:
    """``runs`` and ``tasks`` as rows of Airflow's tables; a submission by the form and its own DAG are one."""
    submissions: dict[tuple[str, str], _Sent] = {}

    def key(dag_id: str, run_id: str) -> tuple[str, str]:
        whole = whole_of(dag_id)
        return (SUBMIT if whole == SUBMIT or whole.startswith(PREFIX) else whole), run_id

    for run in runs:
        at = run.queued_at or run.run_after
        of = submissions.setdefault(key(run.dag_id, run.run_id), _Sent(at))
        of.sent = min(of.sent, at)
        of.login = of.login or run.triggering_user_name
        if run.dag_id == SUBMIT:
            of.name = of.name or str((run.conf or {}).get("name") or "")
        else:
            of.dag_id = whole_of(run.dag_id)
            of.name = of.dag_id.removeprefix(PREFIX)
            if of.dag_id.startswith(PREFIX):
                of.name = of.name.rpartition(".")[0]
    for task in tasks:
        if (sent := submissions.get(key(task.dag_id, task.run_id))) is not None:
            _add(sent, task)
    found = [one for sent in submissions.values() if (one := _coming(sent))]
    return sorted(found, key=lambda one: one.sent)


def _add(of: _Sent, task: Any) -> None:
    from inferbench_tasks.provider.parts.operators import jobs_of_task  # with Airflow's own operators

    if task.dag_id == SUBMIT:
        of.reading[task.task_id] = task.state
    elif task.operator == _PART:
        if task.state in (*_NOT_BEGUN, "queued", "up_for_retry"):
            of.of_parts += len(jobs_of_task(task.task_id))
    elif task.queue == HOLD:
        job = (task.dag_id, task.task_id.partition(".")[0])
        of.reached[job] = of.reached.get(job, False) or task.state not in _NOT_BEGUN
    else:
        of.stages[task.task_id.rpartition(".")[2]] += 1


def _coming(of: _Sent) -> Coming | None:
    """None where all of its jobs are in a queue, or beyond."""
    name = of.name or "not read yet"
    if of.dag_id is None:
        return Coming(name, of.login, of.sent, None, _reading(of.reading))
    jobs = of.of_parts + sum(not reached for reached in of.reached.values())
    if not jobs:
        return None
    what = ", ".join(f"{stage} of {count}" for stage, count in sorted(of.stages.items()))
    why = f"their models and requests are made: {what} under way" if what else ""
    return Coming(
        name, of.login, of.sent, jobs, why or "nothing of them is under way: they take turns on the hosts"
    )


def _reading(states: dict[str, str | None]) -> str:
    validate = states.get("validate")
    if validate == "success":
        return "it is valid; Airflow is told of its stages"
    if validate == "running":
        return "it is being read"
    return "it waits to be read: Airflow's scheduler or worker of the host has not begun"
