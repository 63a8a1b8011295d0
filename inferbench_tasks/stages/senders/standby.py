"""Stage ``standby``: on a client host beside the first one, what waits there for that one to lead the load.

A job has one for each such host (``standby``, ``standby_2``, ...).

It is a process of the run that listens, measures its own way to the server's host, and sends its part of the schedule
from the instant that it is told (``far_senders``). The stage ends once it waits; stage ``load``, on the first client
host, connects to it, and its records come there.
"""

from __future__ import annotations

import socket

from inferbench_tasks import settings
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.sending_hosts import ORDINALS
from inferbench_tasks.errors import LoadError
from inferbench_tasks.launchers import records
from inferbench_tasks.networks.reached_address import reached_address
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.stages.lease_token import token_of
from inferbench_tasks.stages.load_order import Input as LoadInput
from inferbench_tasks.stages.load_order import ToSend
from inferbench_tasks.stages.one_load import quiet_machine
from inferbench_tasks.stages.senders import far_senders
from inferbench_tasks.stages.senders.handles import Standby as Output
from inferbench_tasks.stages.senders.led_part import PATIENCE_S, Order

STAGE = Stage(
    needs=("generate", "serve"),
    leased=True,
    block="shared_load",
    times="further_hosts",
    unread=("generate.model",),
)


class Input(ToSend):
    """Where to send what. ``number``: of the hosts beside the first, from 1; ``devices``: those of this host that the
    job holds.
    """

    number: int = 1
    devices: tuple[HeldDevice, ...] = ()


def run(inp: Input, ctx: Context) -> Output:
    """Wait for a quiet machine, then begin to wait for the first host."""
    from inferbench_tasks.loadgen.prepare import senders_here

    if len(inp.serve.far_further) < inp.number:
        raise LoadError(
            f"The server was started for a load of {1 + len(inp.serve.far_further)} client host(s); serve it again"
        )
    patience = quiet_machine(inp.job.traffic.wait_for_quiet_s, ctx)
    ctx.progress(0, None, "starting what waits here for the first client host")
    folder = ctx.run_dir(inp.run_id) / ORDINALS[inp.number - 1]
    folder.mkdir(exist_ok=True)
    servers_dir = settings.servers_dir(ctx.data_dir)
    records.end_run(servers_dir, inp.run_id)  # of an attempt that was killed
    device_id = inp.devices[0].device_id if inp.devices else ""
    order = Order(
        load=LoadInput.model_validate(inp.model_dump(mode="json", exclude={"devices", "number"})),
        number=inp.number,
        address=reached_address(),
        host=socket.gethostname(),
        home=settings.home_id(ctx.data_dir),
        folder=str(folder),
        data_dir=str(ctx.data_dir),
        base_dir=str(ctx.base_dir),
        told_path=str(folder / "far-senders.invitation"),
        device_id=device_id,
        token=token_of(device_id, ctx.data_dir),
        # Those after this one wait for a quiet machine one after the other, then the first one does.
        patience_s=PATIENCE_S + inp.job.further_hosts * inp.job.traffic.wait_for_quiet_s,
    )
    return Output(
        reached=far_senders.start(inp.run_id, folder, servers_dir, order),
        host=order.host,
        senders=senders_here(inp.job.traffic, ctx.base_dir),
        quiet=patience.as_dict() if patience else None,
        not_quiet=(patience and patience.warning) or "",
        device_id=device_id,
    )
