"""Runs that Airflow has ended, by a user's word or its own, and that nobody has ended in PerfDB."""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from datetime import UTC, datetime, timedelta

from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.contracts.part import PartName
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.executors import dag_runs, job_tasks
from inferbench_tasks.running.invocation import dag_run_invocation

#: A DAG run that ended so long ago begins no more: one whose device was lost looks failed until its job waits again.
SETTLED = timedelta(seconds=30)
#: How far a new scheduler looks back.
LOOK_BACK = timedelta(days=7)

log = logging.getLogger(__name__)


class EndedRuns:
    """A run that is skipped before its last stage, by hand or with its DAG run, has no stage left to say so."""

    def __init__(self, db: PerfDB) -> None:
        self._db = db
        self._seen = datetime.now(UTC) - LOOK_BACK

    def end(self, held: Container[str]) -> None:
        """End those runs. ``held``: jobs with leases, which end first and may know more. Raises PerfDBError."""
        until = datetime.now(UTC) - SETTLED
        ended_by_invocation: dict[str, list[tuple[str, str]]] = {}
        for dag_id, run_id in dag_runs.ended_between(self._seen, until):
            ended_by_invocation.setdefault(dag_run_invocation(dag_id, run_id), []).append((dag_id, run_id))
        where = {"status": "running", "invocation_id": {"$in": sorted(ended_by_invocation)}}
        for run in self._db.find_runs(where) if ended_by_invocation else ():
            job_index = int(run.run_id.rpartition(".")[2])
            dag_run = _of_job(ended_by_invocation[run.invocation_id], job_index)
            if dag_run is None:
                continue  # of a part that goes on
            key = JobKey(*dag_run, job_index)
            if str(key) in held:
                continue
            stage = run.stages[-1].stage if run.stages else "scheduler"
            ended = Verdict.failed(stage, "its DAG run ended without it")
            verdict = Verdict.cancelled(stage) if job_tasks.ended_by_user(key) else ended
            log.warning("run=%s is ended: %s", run.run_id, verdict)
            self._db.end_run(run.run_id, verdict)
        # What ends while it is looked at, or is held now, is seen the next time.
        self._seen = until - SETTLED


def _of_job(runs: Sequence[tuple[str, str]], job_index: int) -> tuple[str, str] | None:
    """That of these runs of one invocation which had the job: its part's, or the one of a DAG with all jobs.

    A submission in parts whose own run has ended has no part that goes on: ``dag_runs.left_behind`` are ended.
    """
    for dag_id, run_id in runs:
        part = PartName.of(dag_id)
        if part is not None and job_index in part:
            return dag_id, run_id
    return next(((d, r) for d, r in runs if PartName.of(d) is None and not dag_runs.has_parts(d, r)), None)
