"""Stage ``standby``: on the second of two client hosts, what waits there for the first one to lead the load.

It is a process of the run that listens, measures its own way to the server's host, and sends its part of the schedule
from the instant that it is told (``far_senders``). The stage ends once it waits; stage ``load``, on the first client
host, connects to it, and its records come there.
"""

from __future__ import annotations

import socket

from inferbench_tasks import settings
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.errors import LoadError
from inferbench_tasks.launchers import records
from inferbench_tasks.networks.reached_address import reached_address
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.stages.load_order import Input as LoadInput
from inferbench_tasks.stages.load_order import ToSend
from inferbench_tasks.stages.one_load import quiet_machine
from inferbench_tasks.stages.senders import far_senders
from inferbench_tasks.stages.senders.handles import Standby as Output
from inferbench_tasks.stages.senders.second_part import PATIENCE_S, Order

STAGE = Stage(needs=("generate", "serve"), leased=True, block="shared_load", unread=("generate.model",))


class Input(ToSend):
    """Where to send what. ``devices``: those of this host that the job holds."""

    devices: tuple[HeldDevice, ...] = ()


def run(inp: Input, ctx: Context) -> Output:
    """Wait for a quiet machine, then begin to wait for the first host."""
    from inferbench_tasks.loadgen.prepare import senders_here

    if inp.serve.far_second is None:
        raise LoadError("The server was started for a load of one client host; serve it again")
    patience = quiet_machine(inp.job.traffic.wait_for_quiet_s, ctx)
    ctx.progress(0, None, "starting what waits here for the first client host")
    folder = ctx.run_dir(inp.run_id) / "second"
    folder.mkdir(exist_ok=True)
    servers_dir = settings.servers_dir(ctx.data_dir)
    records.end_run(servers_dir, inp.run_id)  # of an attempt that was killed
    device_id = inp.devices[0].device_id if inp.devices else ""
    order = Order(
        load=LoadInput.model_validate(inp.model_dump(mode="json", exclude={"devices"})),
        address=reached_address(),
        host=socket.gethostname(),
        home=settings.home_id(ctx.data_dir),
        folder=str(folder),
        data_dir=str(ctx.data_dir),
        base_dir=str(ctx.base_dir),
        told_path=str(folder / "far-senders.invitation"),
        device_id=device_id,
        token=far_senders.token_of(device_id, ctx.data_dir),
        patience_s=PATIENCE_S + inp.job.traffic.wait_for_quiet_s,
    )
    return Output(
        reached=far_senders.start(inp.run_id, folder, servers_dir, order),
        host=order.host,
        senders=senders_here(inp.job.traffic, ctx.base_dir),
        quiet=patience.as_dict() if patience else None,
        not_quiet=(patience and patience.warning) or "",
    )
