"""From a plan to an Airflow DAG: the only place that knows both."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Param, TaskGroup, TriggerRule

from inferbench_tasks.contracts.part import PartName
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.plan.compile import closing_nodes, compile_jobs, compile_plan, group_id
from inferbench_tasks.plan.graph import Node, RunPlan
from inferbench_tasks.plan.parts import in_turns, parts_of
from inferbench_tasks.provider.on_device import leased_task
from inferbench_tasks.provider.operators.stage import StageOperator
from inferbench_tasks.provider.parts.operators import RunPart, part_jobs, parts_at_once
from inferbench_tasks.provider.queues import HOLD, HOST
from inferbench_tasks.provider.weights import ShortestJobFirst, weight, weight_of
from inferbench_tasks.submission.base import JobBase, SubmissionBase
from inferbench_tasks.submission.digest import digest_of_jobs
from inferbench_tasks.submission.sweep import Job, expand

#: Fixed, so that parsing the same file twice gives the same DAG; nothing is scheduled from it.
START = datetime(2026, 1, 1)  # noqa: DTZ001 - Airflow makes it UTC


class SubmissionDag(DAG):
    """A DAG whose hash is that of its id: Airflow hashes it at each arrow between two tasks, by default with the ids of
    all its tasks, so that a sweep's DAG took time in proportion to the square of its jobs.
    """

    def __hash__(self) -> int:
        return hash(self.dag_id)


def render(
    submission: SubmissionBase,
    *,
    base_dir: Path,
    one_at_a_time: bool,
    dag_id: str | None = None,
    deadline_s: float = math.inf,
    split: bool = True,
) -> DAG:
    """The DAG of a submission.

    ``base_dir`` is the folder of the submission's relative paths. ``one_at_a_time`` chains the jobs:
    under an executor that knows no devices, that is what keeps one job's work out of another's figures. An
    interleaved sweep is always a chain: its order is what its comparisons rest on. ``deadline_s``: on the clock of
    ``time.monotonic``; InputError where it is not done by then. ``split``: the jobs of a large one are in DAGs of
    their own (``render_part``), which its tasks start.
    """
    dag_id = dag_id or submission.name
    jobs = expand(submission)
    if split and (parts := parts_of(len(jobs), part_jobs())):
        return _render_whole(submission, jobs, parts, base_dir, one_at_a_time, dag_id)
    plan = compile_plan(submission, jobs)
    if one_at_a_time and any(node.apart for node in plan.nodes):
        raise InputError(
            f"{submission.name} has stages on two hosts at once, which only InferBench's executor leases "
            "(docs/adr/0049): Airflow's own gives a job no device"
        )
    dag = _frame(submission, jobs, dag_id, one_at_a_time)
    _fill(dag, plan, base_dir, one_at_a_time, deadline_s)
    dag.params.update(parameters(submission))
    return dag


def render_part(
    submission: SubmissionBase,
    jobs: Sequence[Job[JobBase]],
    *,
    base_dir: Path,
    one_at_a_time: bool,
    part: PartName,
) -> DAG:
    """The DAG of some jobs of a submission; what follows all jobs is in the submission's own."""
    plan = RunPlan("", tuple(jobs), tuple(compile_jobs(submission, jobs)))
    dag = _frame(submission, jobs, str(part), one_at_a_time)
    dag.dag_display_name = f"{part.whole}, jobs {part.first} to {part.last}"
    dag.tags.add("part")
    _fill(dag, plan, base_dir, one_at_a_time, math.inf)
    dag.params.update(parameters(submission))
    return dag


def _render_whole(
    submission: SubmissionBase,
    jobs: Sequence[Job[JobBase]],
    parts: Sequence[range],
    base_dir: Path,
    one_at_a_time: bool,
    dag_id: str,
) -> DAG:
    """A task for each part, so many under way at a time, and then what follows all jobs."""
    at_once = 1 if one_at_a_time or in_turns(pipeline_of(submission), jobs) else parts_at_once()
    dag = _frame(submission, jobs, dag_id, one_at_a_time)
    dag.max_active_tasks = 16
    tasks: list[RunPart] = []
    for places in parts:
        task = RunPart(
            part=PartName(dag_id, places[0], places[-1]),
            submission=submission,
            base_dir=str(base_dir),
            dag=dag,
            queue=HOST,
            weight_rule=ShortestJobFirst(),
            priority_weight=weight(submission.priority, 0.0),
            trigger_rule=TriggerRule.ALL_DONE,
        )
        if len(tasks) >= at_once:
            tasks[-at_once] >> task
        tasks.append(task)
    plan = RunPlan("", (), tuple(closing_nodes(submission, len(jobs), {})))
    for node in plan.nodes:
        tasks[-at_once:] >> _task(node, plan, dag, base_dir, "")
    dag.params.update(parameters(submission))
    return dag


def _frame(submission: SubmissionBase, jobs: Sequence[Job[JobBase]], dag_id: str, one_at_a_time: bool) -> DAG:
    """A DAG without tasks."""
    return SubmissionDag(
        dag_id=dag_id,
        description=submission.description or f"{len(jobs)} job(s) of {submission.user}",
        start_date=START,
        schedule=None,
        catchup=False,
        max_active_runs=1 if one_at_a_time else 16,
        # Tasks that wait for a device count as active: all jobs have to be seen to be ordered.
        max_active_tasks=1 if one_at_a_time else max(16, 2 * len(jobs)),
        tags=["inferbench", *pipeline_of(submission).tags(submission), *submission.tags],
        doc_md=documentation(submission, jobs),
        is_paused_upon_creation=False,
        default_args={"owner": submission.user},
    )


def _fill(dag: DAG, plan: RunPlan, base_dir: Path, one_at_a_time: bool, deadline_s: float) -> None:
    """The tasks of a plan and their arrows.

    Its parameters come last: each task would have a copy of them, which Airflow checks against its JSON schema whenever
    it stores the DAG (nine tenths of that work). A task's run has the DAG's parameters all the same.
    """
    tasks: dict[str, StageOperator] = {}
    for job in plan.jobs:
        if time.monotonic() > deadline_s:
            raise InputError(f"there was no time to make the tasks of its {len(plan.jobs):,} jobs")
        label = ", ".join(f"{path.rsplit('.', 1)[-1]}={value}" for path, value in job.point.items())
        with TaskGroup(group_id=group_id(job.index), dag=dag, tooltip=label or job.job_id):
            for node in plan.of_job(job.index):
                tasks[node.id] = _task(node, plan, dag, base_dir, label)
    for node in plan.of_submission():
        tasks[node.id] = _task(node, plan, dag, base_dir, "")
    _wire(plan, tasks, one_at_a_time or plan.interleaved)


def _task(node: Node, plan: RunPlan, dag: DAG, base_dir: Path, label: str) -> StageOperator:
    stage = node.stage
    leased = leased_task(node, plan)
    return StageOperator(
        task_id=stage,
        dag=dag,
        node=node,
        base_dir=str(base_dir),
        retries=node.retries,
        weight_rule=ShortestJobFirst(),
        priority_weight=weight_of(node),
        queue=HOST if leased is None else HOLD,
        executor_config={} if leased is None else leased.config(),
        retry_delay=timedelta(seconds=2),
        trigger_rule=TriggerRule.ALL_DONE if node.job_index is None else TriggerRule.ALL_SUCCESS,
        doc_md=f"`{stage}` of `{node.input.get('job_id', dag.dag_id)}`{': ' + label if label else ''}",
    )


def _wire(plan: RunPlan, tasks: dict[str, StageOperator], chained: bool) -> None:
    for node in plan.nodes:
        for need in node.needs.values():
            tasks[need] >> tasks[node.id]
        for other in node.follows:
            tasks[other] >> tasks[node.id]
        if node.follows:
            tasks[node.id].trigger_rule = TriggerRule.ALL_DONE
    previous: StageOperator | None = None
    for job in plan.jobs:
        nodes = plan.of_job(job.index)
        opening = next((node for node in nodes if node.opens), None)
        closing = next((node for node in nodes if node.cleans_up), None)
        if opening and closing:
            tasks[closing.id].as_teardown(setups=tasks[opening.id])
        first = tasks[nodes[0].id]
        if chained and previous is not None:
            # The next job starts once this one has given its device back, however it ended.
            first.trigger_rule = TriggerRule.ALL_DONE
            previous >> first
        previous = tasks[nodes[-1].id]


def parameters(submission: SubmissionBase) -> dict[str, Any]:
    """The DAG's parameters, as the form of Airflow's UI shows them; what the sweep varies is left out, and what is of a
    block that is not there.
    """
    document = submission.model_dump(mode="json")
    swept = submission.sweep
    varied = {path for group in (swept.grid, *swept.zip) for path in group} if swept else set()
    return {
        name: Param(value_at(document, parameter.path), title=name, **parameter.form)
        for name, parameter in pipeline_of(submission).parameters.items()
        if parameter.path not in varied and _has_block(document, parameter.path)
    }


def _has_block(document: dict[str, Any], path: str) -> bool:
    """Whether the block is there that a parameter is of; a job that only evaluates has no load."""
    block = path.rpartition(".")[0]
    return not block or value_at(document, block) is not None


def documentation(submission: SubmissionBase, jobs: Sequence[Job[JobBase]]) -> str:
    """What Airflow's UI shows as the DAG's documentation, Markdown."""
    facts = pipeline_of(submission).facts(submission)
    lines = [
        f"### {submission.name}",
        submission.description,
        "",
        f"* user: `{submission.user}`",
        *(f"* {name}: {text}" for name, text in facts.items()),
        f"* jobs: {len(jobs)}",
        f"* digest: `{digest_of_jobs(job.digest for job in jobs)[:16]}`",
    ]
    return "\n".join(lines)
