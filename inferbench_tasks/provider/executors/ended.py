"""Runs that Airflow has ended, by a user's word or its own, and that nobody has ended in PerfDB."""

from __future__ import annotations

import logging
from collections.abc import Container
from datetime import UTC, datetime, timedelta

from inferbench_tasks.contracts.job_key import JobKey
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.executors import metadata
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
        keys = {
            dag_run_invocation(dag_id, run_id): (dag_id, run_id)
            for dag_id, run_id in metadata.ended_between(self._seen, until)
        }
        where = {"status": "running", "invocation_id": {"$in": sorted(keys)}}
        for run in self._db.find_runs(where) if keys else ():
            key = JobKey(*keys[run.invocation_id], int(run.run_id.rpartition(".")[2]))
            if str(key) in held:
                continue
            stage = run.stages[-1].stage if run.stages else "scheduler"
            ended = Verdict.failed(stage, "its DAG run ended without it")
            verdict = Verdict.cancelled(stage) if metadata.ended_by_user(key) else ended
            log.warning("run=%s is ended: %s", run.run_id, verdict)
            self._db.end_run(run.run_id, verdict)
        # What ends while it is looked at, or is held now, is seen the next time.
        self._seen = until - SETTLED
