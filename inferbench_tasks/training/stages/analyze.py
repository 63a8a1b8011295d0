"""Stage ``analyze``: one report for a submission, over all its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.submission.base import submission_of
from inferbench_tasks.training.job import TrainingJob

if TYPE_CHECKING:
    from inferbench_tasks.submission.base import SubmissionBase as TrainingSubmission
else:
    TrainingSubmission = submission_of(TrainingJob)

STAGE = Stage(of_submission=True, retries=1)


class Input(Handle):
    """The runs of one invocation, in the order of the sweep."""

    invocation_id: str
    submission: TrainingSubmission
    run_ids: tuple[str, ...]


class Output(Handle):
    """``report_path``: one self-contained HTML file; ``verdicts``: run id -> verdict."""

    report_path: str
    verdicts: dict[str, str]


def run(inp: Input, ctx: Context) -> Output:
    """Draw the report from PerfDB; failed and invalid runs are shown with why."""
    from inferbench_tasks.perfdb.finalise import finalise
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.training.report.compose import REPORT_FILE, make_report
    from inferbench_tasks.training.result import TrainingResult, without_figures

    db = PerfDB.connect(ctx.perfdb_uri, ctx.data_dir)
    finalise(db, inp.run_ids, TrainingResult, without_figures, "generate")
    ctx.progress(0, 1, f"drawing the report of {len(inp.run_ids)} run(s)")
    path = ctx.data_dir / "invocations" / inp.invocation_id / REPORT_FILE
    submission = inp.submission.model_dump(mode="json", exclude_defaults=True)
    views = make_report(db, inp.run_ids, submission, path)
    if views:
        db.keep_submission(inp.invocation_id, submission)
        db.attach(inp.invocation_id, path)
    ctx.progress(1, 1, str(path))
    return Output(report_path=str(path), verdicts={view.run_id: view.said for view in views})
