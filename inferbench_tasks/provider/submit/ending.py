"""End a submission before its time: by who started it, or by who may change runs of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.contracts.part import MARK, whole_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.submit.notes import SUBMIT
from inferbench_tasks.provider.submit.shelf import PREFIX
from inferbench_tasks.running.invocation import dag_run_invocation

#: Not ended yet, as Airflow calls it.
UNFINISHED = ("queued", "running")


class NoSuchRun(InputError):
    """Nothing of that id runs or waits here."""


class NotYours(InputError):
    """Somebody else started it."""


@dataclass(frozen=True, slots=True)
class Part:
    """A DAG run that has not ended; ``login``: who started it, None for a schedule."""

    dag_id: str
    run_id: str
    login: str | None


def end_submission(run: str, login: str, may_change: Callable[[str], bool]) -> list[str]:
    """End what has not ended of a submission, as Airflow does when a run is marked as failed; the DAGs of that.

    ``run``: the id of a run of ``submit``, of one of its runs in PerfDB, or of its invocation. Running stages are ended
    and clean up; devices are given back. ``may_change``: whether the login may change runs of that DAG whoever
    started them. None is ended where all of it has ended already. Raises NoSuchRun, NotYours.
    """
    from airflow.utils.session import create_session

    with create_session() as session:
        parts = _parts(session, run)
        ours = [part for part in parts if part.login == login or may_change(part.dag_id)]
        if parts and not ours:
            who = f"by {parts[0].login!r}" if parts[0].login else "by a schedule"
            raise NotYours(f"{run} was started {who}; a submitter may end its own submissions only")
        for part in ours:
            _fail(session, part.dag_id, part.run_id)
    return [part.dag_id for part in ours]


def end_run(dag_id: str, run_id: str) -> None:
    """End one run, as Airflow does when it is marked as failed. Raises NoSuchRun."""
    from airflow.utils.session import create_session

    with create_session() as session:
        _fail(session, dag_id, run_id)


def _parts(session: Any, run: str) -> list[Part]:
    """What has not ended of a submission, the run of ``submit`` first: it would start the other."""
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    columns = (DagRun.dag_id, DagRun.run_id, DagRun.triggering_user_name, DagRun.state)
    submitted = session.execute(select(*columns).where(DagRun.dag_id == SUBMIT, DagRun.run_id == run)).first()
    if submitted is None:
        # The ids of PerfDB are made of those of Airflow, and can't be taken apart again.
        for row in session.execute(select(*columns).where(DagRun.state.in_(UNFINISHED))).all():
            invocation = dag_run_invocation(row.dag_id, row.run_id)
            if run == invocation or run.rpartition(".")[0] == invocation:
                break
        else:
            raise NoSuchRun(f"no submission that runs or waits has the run {run!r}")
        run = row.run_id
        whole = whole_of(row.dag_id)
        of_it = (DagRun.dag_id == whole) | DagRun.dag_id.startswith(whole + MARK, autoescape=True)
        if whole.startswith(PREFIX):
            of_it |= DagRun.dag_id == SUBMIT
    else:
        of_it = (DagRun.dag_id == SUBMIT) | DagRun.dag_id.startswith(PREFIX, autoescape=True)
    rows = session.execute(
        select(*columns).where(DagRun.run_id == run, DagRun.state.in_(UNFINISHED), of_it)
    ).all()
    # Each has its own login: an admin may start a submission's DAG by hand, under any run id.
    parts = [Part(row.dag_id, row.run_id, row.triggering_user_name) for row in rows]
    # What would start another is ended before that: ``submit``, the submission, its parts.
    return sorted(parts, key=lambda part: (part.dag_id != SUBMIT, MARK in part.dag_id))


def _fail(session: Any, dag_id: str, run_id: str) -> None:
    """As Airflow's page does: what runs is ended, what waits is skipped, what cleans up runs."""
    from airflow.api_fastapi.core_api.datamodels.dag_run import DagRunMutableStates
    from airflow.api_fastapi.core_api.services.public.dag_run import patch_dag_run_state
    from airflow.models.dagbag import DBDagBag
    from airflow.models.dagrun import DagRun
    from sqlalchemy import select

    dag_run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
    dag = DBDagBag().get_dag_for_run(dag_run, session=session)
    if dag is None:
        raise NoSuchRun(f"Airflow has no DAG {dag_run.dag_id!r} any more: an admin can delete its run")
    patch_dag_run_state(dag=dag, dag_run=dag_run, state=DagRunMutableStates.FAILED, session=session)
