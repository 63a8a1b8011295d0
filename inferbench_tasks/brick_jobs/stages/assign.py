"""Stage ``assign``: what a shard is to measure, ready for the host of its device.

One that has nothing to measure takes no device.
"""

from __future__ import annotations

from inferbench_tasks.brick_jobs import cutting, shard_files
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.members import run_of
from inferbench_tasks.bricks.runtimes.told import asked_by
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.located import LocatedPath
from inferbench_tasks.errors import StageError
from inferbench_tasks.stages.base import Context, JobInput, Stage

STAGE = Stage(after=("decompose",), retries=1, asks=True)


class Input(JobInput):
    """The run that cut the models is found by this one's place."""

    job: BricksJob


class Output(Handle):
    """``bricks``, ``wholes``: so many are to be measured, which may take ``estimate_s``. ``folder``: their networks
    (``shard_files``), None of a shard that has none; ``models``: those that are timed as a whole, by name;
    ``ability``: what the device's host has to be like, as the models were cut for it."""

    bricks: int
    wholes: int
    estimate_s: float
    ends_job: bool
    folder: LocatedPath | None = None
    models: dict[str, LocatedPath] = {}
    ability: str = ""


def run(inp: Input, ctx: Context) -> Output:
    """StageError where the models could not be cut."""
    part = inp.job.part
    assert part is not None
    found = cutting.read(ctx.run_dir(run_of(inp.run_id, part, "cut")))
    if found is None:
        raise StageError("the models were not cut; see the run of decompose")
    todo = found.of_shard(part.at)
    wholes = sum(one.item.whole for one in todo)
    folder = ctx.run_dir(inp.run_id) / shard_files.FOLDER
    models = shard_files.gather(found, part.at, inp.run_id, folder) if todo else {}
    return Output(
        bricks=len(todo) - wholes,
        wholes=wholes,
        estimate_s=sum(one.estimate_s for one in todo),
        ends_job=not todo,
        folder=str(folder) if todo else None,
        models=models,
        ability=asked_by(found.setting),
    )
