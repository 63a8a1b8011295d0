"""Stage ``end``: what the other host read comes back and is kept. It closes the lease."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.verdict import VALID
from inferbench_tasks.perfdb.documents import SubmissionInfo
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stages.base import Context, JobInput, Stage

from .begin import Output as Begun
from .job import ApartJob
from .look import Output as Looked
from .result import ApartResult

STAGE = Stage(needs=("begin", "look"), leased=True)


class Input(JobInput):
    """What came before; None where that failed."""

    job: ApartJob
    begin: Begun | None = None
    look: Looked | None = None


class Output(Handle):
    """Whether there was something to write."""

    written: bool


def run(inp: Input, ctx: Context) -> Output:
    """Write the result."""
    if inp.look is None or inp.begin is None:
        return Output(written=False)
    result = ApartResult(
        run_id=inp.run_id,
        attempt=inp.attempt,
        job_id=inp.job_id,
        invocation_id=inp.run_id.rpartition(".")[0],
        submission=SubmissionInfo(name=inp.job.name, user=inp.job.user),
        verdict=VALID,
        homes=(inp.begin.home, inp.look.home, settings.home_id(ctx.data_dir)),
        read=Path(inp.look.path).read_text(),
        devices=(inp.begin.devices, inp.look.devices),
    )
    with PerfDB.connect(ctx.perfdb_uri, ctx.data_dir) as db:
        return Output(written=db.save_result(result, lease=ctx.lease))
