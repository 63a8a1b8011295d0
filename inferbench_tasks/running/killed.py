"""Runs whose process was killed: what they left running is ended, and they get their verdict from somebody else."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.launchers import records
from inferbench_tasks.perfdb.documents import RunDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import job_of, pipeline_of, results_of
from inferbench_tasks.running.invocation import Invocation

log = logging.getLogger(__name__)


def end_killed(db: PerfDB, runs: Sequence[RunDocument], *, cancelled: bool, first_stage: str) -> None:
    """End those that count as running still, by the stage that they were in; ``first_stage``: of one that was in none.

    A run that was killed behind its result is what that says: it is whole.
    """
    for run in runs:
        if run.status == "running":
            stage = run.stages[-1].stage if run.stages else first_stage
            killed = Verdict.failed(stage, "the process that ran it was killed")
            ended = Verdict.cancelled(stage) if cancelled else killed
            db.end_run(run.run_id, _measured(db, run) or ended)


def _measured(db: PerfDB, run: RunDocument) -> Verdict | None:
    """The verdict of its result, if that is of the attempt which was killed."""
    attempt = max((record.attempt for record in run.stages), default=1)
    results = results_of(db, run)
    if not results or results[0].attempt < attempt or not results[0].verdict.measured:
        return None
    return results[0].verdict


def end_forsaken(db: PerfDB, data_dir: Path, run_id: str) -> None:
    """End a run here whose process was killed together with the command that would have concluded it.

    It may be concluded at the same time: both do the same. What can't be ended is logged, and stays.
    """
    log.warning("ending what run %s left: all its processes were killed", run_id)
    try:
        found = db.find_runs({"_id": run_id}, limit=1)
        if not found:  # another PerfDB's, or killed before it was recorded
            records.end_run(settings.servers_dir(data_dir), run_id)
            return
        [run] = found
        pipeline = pipeline_of(run.job)
        pipeline.end_left_behind(job_of(run.job), data_dir, run_id)
        folder = data_dir / "invocations" / run.invocation_id
        cancelled = Invocation.at(folder).cancelled()
        end_killed(db, found, cancelled=cancelled, first_stage=pipeline.entries[0].name)
        pipeline.finalise(db, [run_id])
        if db.get_invocation(run.invocation_id).status == "running":
            db.end_invocation(run.invocation_id, "cancelled" if cancelled else "failed")
    except InferBenchError:
        log.warning("what run %s left can't be ended", run_id, exc_info=True)
