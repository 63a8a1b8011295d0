"""Stage ``look``: read it, on whichever host this is, and write down both."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.located import LocatedPath
from inferbench_tasks.stages.base import Context, JobInput, Stage

from . import begin
from .job import ApartJob

STAGE = Stage(needs=("begin",), leased=True)


class Input(JobInput):
    """What the other host wrote."""

    job: ApartJob
    begin: begin.Output
    devices: tuple[HeldDevice, ...] = ()


class Output(Handle):
    """As that of ``begin``."""

    path: LocatedPath
    home: str
    devices: tuple[str, ...]


def run(inp: Input, ctx: Context) -> Output:
    """A file with both ids."""
    path, home = ctx.run_dir(inp.run_id) / "looked.txt", settings.home_id(ctx.data_dir)
    path.write_text(f"{Path(inp.begin.path).read_text()} {home}")
    return Output(path=str(path), home=home, devices=tuple(device.device_id for device in inp.devices))
