"""Submissions over REST: validate, run, and how far it has come."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Body, HTTPException
from pydantic import BaseModel, ConfigDict

from inferbench_tasks import settings
from inferbench_tasks.errors import SubmissionError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.problem import Problem
from inferbench_tasks.provider.api.access import SUBMITTER, MayChange, Store, User
from inferbench_tasks.provider.api.problems import not_found
from inferbench_tasks.provider.submit.ending import NoSuchRun, NotYours, end_submission
from inferbench_tasks.provider.submit.notes import SUBMIT
from inferbench_tasks.provider.submit.quota import check_quota
from inferbench_tasks.provider.submit.request import Resolved, SubmissionRequest, decided, resolve
from inferbench_tasks.provider.submit.shelf import Shelf
from inferbench_tasks.running.cluster_abilities import of_cluster
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.submission.base import JobBase
from inferbench_tasks.submission.sweep import Job, expand

router = APIRouter(tags=["submissions"])


class Validated(BaseModel):
    """A submission that may run: its name, user and jobs, and each job's swept values."""

    name: str
    user: str
    #: Who asks, whatever user the submission names: fair share and quotas go by it.
    login: str
    #: As far as the login's role goes.
    priority: int
    jobs: int
    points: list[dict[str, Any]]


class Started(Validated):
    """A submission that was started: the run of ``submit``, and the DAG that has its stages."""

    run: str
    dag: str
    #: Where this API tells how far it has come.
    status: str


class Cancel(BaseModel):
    """Nothing has to be said; the body is JSON all the same, which no form of another site can send."""

    model_config = ConfigDict(extra="forbid")


class Cancelled(BaseModel):
    """``ended``: the DAGs whose runs were ended; none where all of it had ended already."""

    run: str
    ended: list[str]


class Problems(BaseModel):
    """Why it was refused, each problem with its field (and line, where there is a text)."""

    detail: list[dict[str, Any]]


class Progress(BaseModel):
    """``state``: queued, running, success or failed, of the submission's run; ``verdicts``: of its jobs."""

    run: str
    state: str
    dag: str | None = None
    invocation: str | None = None
    verdicts: dict[str, str] = {}
    problems: list[dict[str, Any]] = []
    report: str | None = None


Request = Annotated[SubmissionRequest, Body()]
REFUSED: dict[int | str, dict[str, Any]] = {422: {"model": Problems, "description": "It does not validate."}}


@router.post("/submissions/validate", summary="Check a submission; nothing is started", responses=REFUSED)
def validate(request: Request, user: User, db: Store) -> Validated:
    """422 with every problem at once, if there are any."""
    resolved, jobs = resolved_jobs(request, user, db)
    return Validated(**_about(resolved, jobs, user.get_name()))


@router.post(
    "/submissions",
    status_code=202,
    dependencies=[SUBMITTER],
    summary="Run a submission",
    responses={
        **REFUSED,
        403: {"description": "A viewer may not submit."},
        429: {"description": "This login has as many jobs, submissions, minutes or bytes as it may."},
    },
)
def submit(request: Request, user: User, db: Store) -> Started:
    """Validates, then starts the ``submit`` DAG; 422 with every problem, before any run exists.

    429 where the login has too much waiting already, or has used up its devices' minutes or its room; 503 where the
    disk is full.
    """
    from airflow.api.common.trigger_dag import trigger_dag
    from airflow.exceptions import DagNotFound
    from airflow.utils.types import DagRunTriggeredByType

    settings.refuse_full(settings.data_dir())
    resolved, jobs = resolved_jobs(request, user, db)
    check_quota(user.get_name(), len(jobs), db, submissions=_unfinished(user.get_name()))
    dag_id = Shelf(settings.data_dir()).place(resolved)
    login = user.get_name()
    try:
        started = trigger_dag(
            dag_id=SUBMIT,
            conf=decided(request, resolved).parameters(),
            triggered_by=DagRunTriggeredByType.REST_API,
            triggering_user_name=login,
        )
    except DagNotFound as error:
        raise not_found("Airflow does not know the DAG 'submit' (yet): is dags/submit.py there?") from error
    assert started is not None
    status = f"/inferbench/api/submissions/{quote(started.run_id)}"
    return Started(**_about(resolved, jobs, login), run=started.run_id, dag=dag_id, status=status)


@router.post(
    "/submissions/{run}/cancel",
    status_code=202,
    dependencies=[SUBMITTER],
    summary="End a submission",
    responses={
        403: {"description": "Somebody else started it."},
        404: {"description": "Nothing of that id runs or waits."},
    },
)
def cancel(run: str, request: Annotated[Cancel, Body()], user: User, may_change: MayChange) -> Cancelled:
    """One's own; an admin any. ``run``: as ``POST /submissions`` told it, or one of its runs, or its invocation.

    What runs is ended and cleans up, what waits is skipped; each run's verdict is ``cancelled``.
    """
    try:
        ended = end_submission(run, user.get_name(), may_change)
    except NoSuchRun as error:
        raise not_found(str(error)) from error
    except NotYours as error:
        raise HTTPException(403, str(error)) from error
    return Cancelled(run=run, ended=ended)


@router.get("/submissions/{run}", summary="How far a submission has come")
def progress(run: str, db: Store) -> Progress:
    """``run``: the id of a run of the ``submit`` DAG."""
    from airflow.models.dagrun import DagRun
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        mine = session.scalar(select(DagRun).where(DagRun.dag_id == SUBMIT, DagRun.run_id == run))
        if mine is None:
            raise not_found(f"there is no run {run!r} of the submit DAG")
        rows = session.scalars(
            select(XComModel).where(XComModel.dag_id == SUBMIT, XComModel.run_id == run)
        ).all()
        messages = {(row.task_id, row.key): XComModel.deserialize_value(row) for row in rows}
        state = str(mine.state)
    answer = Progress(run=run, state=state, problems=messages.get(("validate", "problems")) or [])
    validated, started = messages.get(("validate", "return_value")), messages.get(("run", "trigger_run_id"))
    if validated:
        answer.dag = validated["dag_id"]
    if validated and started:
        invocation = Invocation.of_dag_run(settings.data_dir(), validated["dag_id"], started)
        answer.invocation = invocation.id
        runs = db.find_runs({"invocation_id": invocation.id})
        answer.verdicts = {r.run_id: r.said for r in runs}
        if (invocation.dir / "report.html").is_file():
            answer.report = f"/inferbench/report/{invocation.id}"
    return answer


def resolved_jobs(request: SubmissionRequest, user: Any, db: PerfDB) -> tuple[Resolved, list[Job[JobBase]]]:
    """The submission that was asked for and its jobs; SubmissionError with every problem."""
    from inferbench_tasks.provider.loader import submissions_dir

    folder = submissions_dir()
    if not folder.is_dir() and request.name is not None:
        raise SubmissionError([Problem("submission", None, "name", f"there is no folder {folder}")])
    resolved = resolve(request, folder, login=user.get_name(), abilities=of_cluster(db))
    return resolved, expand(resolved.submission)


def _unfinished(login: str) -> int:
    """How many runs of ``submit`` that the login started have not ended."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import func, select

    with create_session() as session:
        query = select(func.count()).where(
            DagRun.dag_id == SUBMIT,
            DagRun.triggering_user_name == login,
            DagRun.state.in_(("queued", "running")),
        )
        return int(session.scalar(query) or 0)


def _about(resolved: Resolved, jobs: list[Job[JobBase]], login: str) -> dict[str, Any]:
    submission = resolved.submission
    return {
        "name": submission.name,
        "user": submission.user,
        "login": login,
        "priority": submission.priority,
        "jobs": len(jobs),
        "points": [job.point for job in jobs[:100]],
    }
