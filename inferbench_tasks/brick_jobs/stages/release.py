"""Stage ``release``: gives the device back; what timed bricks ended with the task that started it."""

from __future__ import annotations

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.stages.base import Context, JobInput, Stage

STAGE = Stage(needs=("measure",), leased=True, retries=2)


class Input(JobInput):
    """Of the job it is enough to know which."""

    job: BricksJob


class Output(Handle):
    """Whether anything was left to end."""

    stopped: bool


def run(inp: Input, ctx: Context) -> Output:
    """End every process of the run; harmless when they are gone already."""
    from inferbench_tasks.launchers import records

    return Output(stopped=records.end_run(settings.servers_dir(ctx.data_dir), inp.run_id))
