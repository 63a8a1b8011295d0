"""Stage ``construct``: what is predicted of each model, set beside what was measured, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.submission.base import submission_of

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.submission.base import SubmissionBase as BricksSubmission
else:
    BricksSubmission = submission_of(BricksJob)

STAGE = Stage(of_submission=True, retries=1)


class Input(Handle):
    """The runs of one invocation, in the order of the sweep."""

    invocation_id: str
    submission: BricksSubmission
    run_ids: tuple[str, ...]


class Output(Handle):
    """``report_path``: one self-contained HTML file; ``verdicts``: run id -> verdict."""

    report_path: str
    verdicts: dict[str, str]


def run(inp: Input, ctx: Context) -> Output:
    """Write the result of each run, and draw the report; what failed is shown with why."""
    from inferbench_tasks.brick_jobs.conclusions import conclude
    from inferbench_tasks.brick_jobs.report.compose import REPORT_FILE, make_report
    from inferbench_tasks.perfdb.store import PerfDB

    db = PerfDB.connect(ctx.perfdb_uri, ctx.data_dir)
    ctx.progress(0, 2, "constructing")
    verdicts = conclude(db, inp.submission, inp.invocation_id, inp.run_ids, ctx)
    ctx.progress(1, 2, "drawing the report")
    path = ctx.data_dir / "invocations" / inp.invocation_id / REPORT_FILE
    submission = inp.submission.model_dump(mode="json", exclude_defaults=True)
    make_report(db, inp.run_ids, submission, path)
    _keep(db, inp.invocation_id, submission, path, inp.run_ids)
    ctx.progress(2, 2, str(path))
    return Output(report_path=str(path), verdicts=verdicts)


def _keep(
    db: PerfDB, invocation_id: str, submission: dict[str, object], path: object, runs: Sequence[str]
) -> None:
    from pathlib import Path

    if db.find_runs({"_id": {"$in": list(runs)}}):
        db.keep_submission(invocation_id, submission)
        db.attach(invocation_id, Path(str(path)))
