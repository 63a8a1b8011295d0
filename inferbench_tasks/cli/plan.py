"""``inferbench plan``: what a submission would do; runs nothing."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import typer

from inferbench_tasks import settings
from inferbench_tasks.output import OutputFormat, emit, say
from inferbench_tasks.pipelines.base import pipeline_of
from inferbench_tasks.plan.compile import compile_plan, group_id
from inferbench_tasks.plan.graph import Node, RunPlan
from inferbench_tasks.running.cluster_abilities import not_for_run, of_cluster_here
from inferbench_tasks.running.known_systems import system_rows
from inferbench_tasks.stages.fixed_batch import remarks
from inferbench_tasks.submission.reader import read_with_jobs

app = typer.Typer()

#: More jobs than this are drawn as a count; the table lists them all.
DRAWN_JOBS = 12


@app.command()
def plan(
    file: Path = typer.Argument(..., metavar="FILE", help="The submission, a YAML file."),
    output: OutputFormat = typer.Option(OutputFormat.table, "--output", "-o", help="table, json or yaml."),
) -> None:
    """Show the jobs of a submission and the graph of their stages.

    Of a model file that was inspected or run here before it is said if it takes a batch of its own; of systems which
    devices were chosen, and the first requirement that each other one misses; where no worker is registered, of jobs
    that need several hosts what they take, for `inferbench run` refuses them.
    """
    gc.disable()  # of a plan nothing becomes garbage before the command ends; to look for it took a fifth of its time
    cluster = of_cluster_here(settings.data_dir())
    submission, jobs = read_with_jobs(file, cluster)
    compiled = compile_plan(submission, jobs)
    systems = [row.model_dump() for row in system_rows(submission, jobs, cluster)]
    of_models = remarks(compiled.jobs, file.absolute().parent, settings.data_dir())
    said = [*of_models, *not_for_run(jobs, cluster)]
    if output is OutputFormat.table:
        typer.echo(draw(compiled))
        emit([_row(compiled, index) for index in range(len(compiled.jobs))], output)
        if systems:
            emit(systems, output)
        for remark in said:
            say(remark)
    else:
        emit(
            {
                **_document(compiled),
                **({"systems": systems} if systems else {}),
                "remarks": said,
            },
            output,
        )


def draw(plan: RunPlan) -> str:
    """The graph as text: a line per job, the device held between the brackets."""
    lines = [
        f"submission {plan.submission_digest[:16]}: {len(plan.jobs)} job(s), {len(plan.nodes)} tasks",
        "",
    ]
    closing = " ─► ".join(node.stage for node in plan.of_submission())
    for job in plan.jobs[:DRAWN_JOBS]:
        lead = "" if not closing else "──►" if len(plan.jobs) == 1 else "─┐ "
        lines.append(f"{group_id(job.index)}  {_chain(plan.of_job(job.index))}{lead}")
    if len(plan.jobs) > DRAWN_JOBS:
        lines.append(f"  ... {len(plan.jobs) - DRAWN_JOBS} more")
    last = len(lines) - 1
    if closing and len(plan.jobs) > 1:
        lines.append(" " * (len(lines[last]) - 2 if len(plan.jobs) <= DRAWN_JOBS else 0) + f"└─► {closing}")
    elif closing:
        lines[last] += f" {closing}"
    return "\n".join(lines) + "\n"


def _chain(nodes: tuple[Node, ...]) -> str:
    """``generate ─►[cpu: serve ─► release ]``."""
    text = ""
    for node in nodes:
        arrow = "" if node.first else " ─►[" if node.opens else " ─► "
        several = f" x {node.devices}" if node.devices > 1 else ""
        opening = f"{'[' if node.first else ''}{node.resource}{several}: " if node.opens else ""
        where = " (on another host)" if node.elsewhere else ""
        where = f" (on other host {node.elsewhere})" if node.elsewhere > 1 else where
        text += f"{arrow}{opening}{node.stage}{where}{' ]' if node.closes else ''}"
    return text


def _row(plan: RunPlan, index: int) -> dict[str, Any]:
    job = plan.jobs[index]
    return {
        "job": job.job_id,
        "device": job.spec.needed_device(),
        **({"devices": count} if (count := job.spec.needed_devices()) > 1 else {}),
        **pipeline_of(job.spec).row(job.spec),
        **job.point,
    }


def _document(plan: RunPlan) -> dict[str, Any]:
    return {
        "submission_digest": plan.submission_digest,
        "jobs": [{"index": j.index, "job_id": j.job_id, "point": j.point} for j in plan.jobs],
        "nodes": [
            {
                "id": n.id,
                "stage": n.stage,
                "needs": list(n.needs.values()),
                "resource": n.resource,
                "lease": n.lease,
                "devices": n.devices if n.lease else None,
            }
            for n in plan.nodes
        ],
    }
