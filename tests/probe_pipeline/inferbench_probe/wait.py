"""Stage ``wait``: nothing, for as long as the job says."""

from __future__ import annotations

import time

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.errors import CancelledError
from inferbench_tasks.stages.base import Context, JobInput, Stage

from .job import ProbeJob

STAGE = Stage(leased=True)


class Input(JobInput):
    """The first of its job."""

    job: ProbeJob


class Output(Handle):
    """How long it waited."""

    waited_s: float


def run(inp: Input, ctx: Context) -> Output:
    """Wait; CancelledError once the run is cancelled."""
    began = time.monotonic()
    while (waited_s := time.monotonic() - began) < inp.job.seconds:
        if ctx.cancelled():
            raise CancelledError("Cancelled while waiting.")
        ctx.progress(waited_s, inp.job.seconds, "waiting")
        time.sleep(0.05)
    return Output(waited_s=waited_s)
