"""Stage ``analyze``: one report for a submission, over all its runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import StageError
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.submission.schema import Submission

if TYPE_CHECKING:
    from inferbench_tasks.analysis.ceilings import Ceilings
    from inferbench_tasks.perfdb.store import PerfDB

log = logging.getLogger(__name__)

STAGE = Stage(of_submission=True, retries=1)


class Input(Handle):
    """The runs of one invocation, in the order of the sweep."""

    invocation_id: str
    submission: Submission
    run_ids: tuple[str, ...]


class Output(Handle):
    """``report_path``: one self-contained HTML file; ``verdicts``: run id -> verdict."""

    report_path: str
    verdicts: dict[str, str]


def run(inp: Input, ctx: Context) -> Output:
    """Draw the report from PerfDB and the raw samples; failed and invalid runs are shown with why."""
    from inferbench_tasks.analysis.report.compose import REPORT_FILE, make_report
    from inferbench_tasks.analysis.report.finalise import finalise
    from inferbench_tasks.perfdb.store import PerfDB
    from inferbench_tasks.stages.sent_traces import send_traces

    db = PerfDB.connect(ctx.perfdb_uri, ctx.data_dir)
    finalise(db, inp.run_ids)
    send_traces(db, inp.run_ids, ctx)
    ctx.progress(0, 1, f"drawing the report of {len(inp.run_ids)} run(s)")
    path = ctx.data_dir / "invocations" / inp.invocation_id / REPORT_FILE
    submission = inp.submission.model_dump(mode="json", exclude_defaults=True)
    views = make_report(db, inp.run_ids, submission, path, _ceilings(inp, ctx, db))
    if views:
        db.keep_submission(inp.invocation_id, submission)
        db.attach(inp.invocation_id, path)
    ctx.progress(1, 1, str(path))
    return Output(report_path=str(path), verdicts={view.run_id: view.said for view in views})


def _ceilings(inp: Input, ctx: Context, db: PerfDB) -> Ceilings | None:
    """This machine's, for CPU runs on its processor; without them the roofline is left out of the report."""
    from inferbench_tasks.analysis.ceilings import CACHE, measured_ceilings, processor_of

    processor = processor_of(db.find_results({"run_id": {"$in": list(inp.run_ids)}}))
    if processor is None:
        return None  # large caches make it a matter of seconds: it is not measured for nothing
    try:
        return measured_ceilings(ctx.cache_dir(CACHE), processor)
    except StageError:
        log.warning("no roofline", exc_info=True)
        return None
