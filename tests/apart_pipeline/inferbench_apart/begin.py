"""Stage ``begin``: write on the job's own host down which that is."""

from __future__ import annotations

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.located import LocatedPath
from inferbench_tasks.stages.base import Context, JobInput, Stage

from .job import ApartJob

STAGE = Stage(leased=True)


class Input(JobInput):
    """The first of its job."""

    job: ApartJob
    devices: tuple[HeldDevice, ...] = ()


class Output(Handle):
    """What was written; ``home``: of the host, ``devices``: those that the stage was told of."""

    path: LocatedPath
    home: str
    devices: tuple[str, ...]


def run(inp: Input, ctx: Context) -> Output:
    """A file with the id of the host's data directory."""
    path, home = ctx.run_dir(inp.run_id) / "begun.txt", settings.home_id(ctx.data_dir)
    path.write_text(home)
    return Output(path=str(path), home=home, devices=tuple(device.device_id for device in inp.devices))
