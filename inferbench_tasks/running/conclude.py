"""After an invocation's process has ended, however it ended: nothing left running, everything recorded."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inferbench_tasks.perfdb.documents import ResultBase, RunStatus
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import Pipeline, pipeline_of
from inferbench_tasks.plan.compile import compile_plan
from inferbench_tasks.plan.graph import RunPlan
from inferbench_tasks.running.execute import execute_node
from inferbench_tasks.running.inline import run_nodes
from inferbench_tasks.running.invocation import Invocation
from inferbench_tasks.running.killed import end_killed

log = logging.getLogger(__name__)


def conclude(
    invocation: Invocation, db: PerfDB, *, cancelled: bool, say: Callable[[str], None] = log.warning
) -> list[ResultBase]:
    """The results of an invocation, one per run that was started, in the order of the sweep.

    A run that something else on the machine disturbed is run once more (``again``). Ends servers that a
    killed process left behind, ends its runs as ``cancelled`` or ``failed``, and makes the report if the
    process could not.
    """
    order = invocation.order()
    data_dir = Path(order.data_dir)
    plan, pipeline = compile_plan(order.submission), pipeline_of(order.submission)
    run_ids = [invocation.run_id(job.index) for job in plan.jobs]
    for run_id, job in zip(run_ids, plan.jobs, strict=True):
        if pipeline.end_left_behind(job.spec, data_dir, run_id):
            log.warning("ended a server that was left behind run_id=%s", run_id)
    runs = {run.run_id: run for run in db.find_runs({"_id": {"$in": run_ids}})}
    if any(run.status == "running" for run in runs.values()):
        first_stage = plan.of_job(plan.jobs[0].index)[0].stage
        end_killed(db, list(runs.values()), cancelled=cancelled, first_stage=first_stage)
        runs = {run.run_id: run for run in db.find_runs({"_id": {"$in": run_ids}})}
    statuses = {run.status for run in runs.values()}
    repeated = [] if cancelled else again(invocation, db, pipeline, plan, say)
    for node in plan.of_submission() if runs else ():
        if repeated or not output_path(invocation, node.stage).exists():
            execute_node(node, {}, invocation=invocation, base_dir=Path(order.base_dir), data_dir=data_dir)
    if runs:
        worst: RunStatus = "cancelled" if cancelled else "failed" if "failed" in statuses else "done"
        db.end_invocation(invocation.id, worst)
    pipeline.finalise(db, run_ids)
    results = _latest(db, pipeline, run_ids)
    return [results[run_id] for run_id in run_ids if run_id in results]


def again(
    invocation: Invocation, db: PerfDB, pipeline: Pipeline[Any], plan: RunPlan, say: Callable[[str], None]
) -> list[str]:
    """Run each run once more whose first attempt was quarantined for interference; their ids.

    None of an interleaved sweep: out of its turn it would be no pair with anything.

    Both attempts are kept under the run's id; the second says why it was made (``extensions.repeats``). It is the last:
    a machine that is always busy gives no valid run, and says so.
    """
    if plan.interleaved:
        return []
    run_ids = [invocation.run_id(job.index) for job in plan.jobs]
    latest = _latest(db, pipeline, run_ids)
    repeated = []
    for job, run_id in zip(plan.jobs, run_ids, strict=True):
        first = latest.get(run_id)
        if first is None or first.attempt > 1 or not first.verdict.disturbed:
            continue
        if invocation.cancelled():
            break
        say(f"{run_id} was disturbed and is run once more: {first.verdict}")
        try:
            run_nodes(invocation, plan.of_job(job.index), attempt=first.attempt + 1)
        finally:
            pipeline.end_left_behind(job.spec, Path(invocation.order().data_dir), run_id)
        repeated.append(run_id)
    return repeated


def _latest(db: PerfDB, pipeline: Pipeline[Any], run_ids: list[str]) -> dict[str, ResultBase]:
    """Each run's last attempt."""
    results = db.results_of(pipeline.result(), {"run_id": {"$in": run_ids}}, sort=(("attempt", 1),))
    return {result.run_id: result for result in results}


def output_path(invocation: Invocation, stage: str) -> Path:
    """Where the output of a stage lies that follows all jobs."""
    return invocation.dir / f"{stage}.json"


def report_path(invocation: Invocation) -> Path | None:
    """The invocation's report, once a stage that follows all jobs has made one."""
    for node in compile_plan(invocation.order().submission).of_submission():
        output = output_path(invocation, node.stage)
        if output.exists() and (path := json.loads(output.read_text()).get("report_path")):
            return Path(path)
    return None
