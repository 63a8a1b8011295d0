"""Stage ``convert``: the model as ONNX, checked against its source, as in a submission of kind serving."""

from __future__ import annotations

from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.serving import serving_job
from inferbench_tasks.stages import convert, generate
from inferbench_tasks.stages.base import Context, JobInput, Stage

STAGE = Stage(needs=("generate",), retries=1)
Output = convert.Output


class Input(JobInput):
    """The model."""

    job: BricksJob
    generate: generate.Output


def run(inp: Input, ctx: Context) -> convert.Output:
    """Convert it. Raises as the stage of serving."""
    asked = convert.Input(
        run_id=inp.run_id,
        job_id=inp.job_id,
        attempt=inp.attempt,
        job=serving_job(inp.job),
        generate=inp.generate,
    )
    output: convert.Output = ctx.run_stage(convert, asked, ctx)
    return output
