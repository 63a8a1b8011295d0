"""Stage ``meet``, of jobs on two hosts: on the job's own host, the first, begin to wait for the second one.

What it starts outlives it: the ranks of this host and what watches it, once stage ``train`` of the other host says so.
"""

from __future__ import annotations

import socket
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Handle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.networks.reached_address import reached_address
from inferbench_tasks.stages.base import Context, JobInput, Stage
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.order import FOLDER
from inferbench_tasks.training.stages import generate

STAGE = Stage(needs=("generate",), leased=True, block="apart")


class Input(JobInput):
    """What is trained on."""

    job: TrainingJob
    generate: generate.Output
    devices: tuple[HeldDevice, ...] = ()


class Output(Handle):
    """``first``: where the second host connects to, and the recording of this one. ``answers``: what its ranks will
    write, here. ``sandbox``: what keeps them from the rest of the machine. ``devices``: those of this host.
    """

    first: FarWatch
    answers: tuple[str, ...]
    sandbox: str
    devices: tuple[HeldDevice, ...] = ()


def run(inp: Input, ctx: Context) -> Output:
    """Begin to listen; on failure nothing is left running. InputError where this host's address is not known."""
    from inferbench_tasks import sandbox
    from inferbench_tasks.launchers import records
    from inferbench_tasks.stages.senders import listener
    from inferbench_tasks.training.hosts import first, on_host

    folder = ctx.run_dir(inp.run_id) / FOLDER
    servers_dir = settings.servers_dir(ctx.data_dir)
    records.end_run(servers_dir, inp.run_id)  # of an attempt that was killed
    address = reached_address("A run on two hosts", "devices.hosts")
    cores = on_host.rank_cores(inp.job, inp.devices)
    order_path = on_host.prepare(generate.order_of(inp.job, inp.generate, cores), folder)
    order = first.Order(
        job=inp.job,
        run_id=inp.run_id,
        address=address,
        host=socket.gethostname(),
        home=settings.home_id(ctx.data_dir),
        order_path=str(order_path),
        data_dir=str(ctx.data_dir),
        base_dir=str(ctx.base_dir),
        told_path=str(folder.parent / "first.invitation"),  # not where the ranks write
    )
    try:
        invitation = listener.start(
            first.__name__,
            "first",
            inp.run_id,
            folder.parent,
            servers_dir,
            order.model_dump_json(),
            Path(order.told_path),
        )
    except BaseException:
        records.end_run(servers_dir, inp.run_id)
        raise
    ctx.progress(1, 1, "waiting for the other host")
    return Output(
        first=FarWatch.of(invitation, str(on_host.recording_path(folder))),
        answers=tuple(map(str, on_host.own_answers(inp.job, folder))),
        sandbox=sandbox.state(),
        devices=inp.devices,
    )
