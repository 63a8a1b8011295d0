"""Stage ``note``: write down how long it was. It closes the lease, so that it follows whatever happens."""

from __future__ import annotations

from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.verdict import VALID
from inferbench_tasks.perfdb.documents import SubmissionInfo
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context, JobInput, Stage

from . import wait
from .job import ProbeJob
from .result import ProbeResult

STAGE = Stage(needs=("wait",), leased=True)


class Input(JobInput):
    """What came before."""

    job: ProbeJob
    wait: wait.Output


class Output(Handle):
    """Whether this was the first result of this attempt."""

    written: bool


def run(inp: Input, ctx: Context) -> Output:
    """Write the result."""
    result = ProbeResult(
        run_id=inp.run_id,
        attempt=inp.attempt,
        job_id=inp.job_id,
        invocation_id=inp.run_id.rpartition(".")[0],
        submission=SubmissionInfo(name=inp.job.name, user=inp.job.user),
        verdict=VALID,
        waited_s=inp.wait.waited_s,
    )
    with PerfDB.connect(ctx.perfdb_uri, ctx.data_dir) as db:
        return Output(written=db.save_result(result, lease=ctx.lease))
