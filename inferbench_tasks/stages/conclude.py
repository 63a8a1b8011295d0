"""After an invocation's process has ended, however it ended: nothing left running, everything recorded."""

from __future__ import annotations

import json
import logging
from pathlib import Path

from inferbench_tasks.launchers import records
from inferbench_tasks.perfdb.documents import ResultDocument, RunStatus
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.stages.execute import execute_stage
from inferbench_tasks.stages.invocation import Invocation

log = logging.getLogger(__name__)


def conclude(invocation: Invocation, db: PerfDB, *, cancelled: bool) -> list[ResultDocument]:
    """The results of an invocation, one per run that was started, in the order of the sweep.

    Ends servers that a killed process left behind, ends its runs as ``cancelled`` or ``failed``, and
    makes the report if the process could not.
    """
    order = invocation.order()
    data_dir = Path(order.data_dir)
    plan = compile_plan(order.submission)
    run_ids = [invocation.run_id(job.index) for job in plan.jobs]
    for run_id in run_ids:
        if records.end_run(data_dir / "servers", run_id):
            log.warning("ended a server that was left behind run_id=%s", run_id)
    runs = {run.run_id: run for run in db.find_runs({"_id": {"$in": run_ids}})}
    for run_id, run in runs.items():
        if run.status == "running":
            stage = run.stages[-1].stage if run.stages else plan.nodes[0].stage
            why = (
                f"cancelled: {stage}" if cancelled else f"failed: {stage}, the process that ran it was killed"
            )
            db.end_run(run_id, why)
    if runs and report_path(invocation) is None:
        node = plan.nodes[-1]
        execute_stage(
            "analyze", node.input, {}, invocation=invocation, job_index=None, base_dir=Path(order.base_dir),
            data_dir=data_dir,
        )  # fmt: skip
    statuses = {run.status for run in runs.values()}
    if runs:
        worst: RunStatus = "cancelled" if cancelled else "failed" if "failed" in statuses else "done"
        db.end_invocation(invocation.id, worst)
    found = {result.run_id: result for result in db.find_results({"run_id": {"$in": run_ids}})}
    return [found[run_id] for run_id in run_ids if run_id in found]


def report_path(invocation: Invocation) -> Path | None:
    """The invocation's report, once ``analyze`` has made it."""
    output = invocation.dir / "analyze.json"
    if not output.exists():
        return None
    return Path(json.loads(output.read_text())["report_path"])
