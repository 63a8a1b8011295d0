"""Stage ``generate``: one model, as in a submission of kind serving."""

from __future__ import annotations

from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.serving import serving_job
from inferbench_tasks.stages import generate
from inferbench_tasks.stages.base import Context, JobInput, Stage

STAGE = Stage(retries=1)
Output = generate.Output


class Input(JobInput):
    """Nothing comes before it."""

    job: BricksJob


def run(inp: Input, ctx: Context) -> generate.Output:
    """Make or fetch the model. Raises as the stage of serving."""
    asked = generate.Input(
        run_id=inp.run_id, job_id=inp.job_id, attempt=inp.attempt, job=serving_job(inp.job)
    )
    output: generate.Output = ctx.run_stage(generate, asked, ctx)
    return output
