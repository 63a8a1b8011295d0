"""Part of ``train`` on two hosts: it runs on the second one, and leads the training of both.

It connects to what stands on the first host (``hosts.first``), measures the way there, has the first ranks begin, and
starts its own, which meet them. Either host's failure ends the ranks of both: the connection ends with whoever is gone.
"""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.held_device import HeldDevice
from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.errors import CancelledError, LoadError, StageError
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.around import AroundLoad
from inferbench_tasks.networks.links.following import Follow, followed
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.senders.far_watch import FarWatch
from inferbench_tasks.timing.two_clocks import thinned
from inferbench_tasks.training import launch
from inferbench_tasks.training.hosts import on_host
from inferbench_tasks.training.hosts.facts import HostFacts, SecondHost
from inferbench_tasks.training.hosts.first import Begun
from inferbench_tasks.training.hosts.meeting import Meeting
from inferbench_tasks.training.job import TrainingJob

#: Between two exchanges with the first host, which ask how its ranks do, too.
EVERY_S = 1.0
#: So many of them go with the result, of a training that takes hours.
MOST_EXCHANGES = 5_000
#: Once ranks of one host have failed the others find out within it, if they were not the first.
_TELLS_WITHIN_S = 10.0
LISTENER = "what `meet` started on the job's own host"


def train(
    job: TrainingJob,
    run_id: str,
    order_path: Path,
    ctx: Context,
    first: FarWatch,
    devices: tuple[HeldDevice, ...],
) -> tuple[SecondHost, str]:
    """All epochs, by the ranks of both hosts; what this host tells, and what kept its ranks from the rest of it.

    Raises CancelledError, LoadError where the way to the first host is not there or was lost, and StageError with the
    ranks that failed and the end of their hosts' logs.
    """
    home = settings.home_id(ctx.data_dir)
    me = LinkEnd(host=socket.gethostname(), home=home, address="", boot_id=settings.boot_id())
    with NearSide(first.invitation, listener=LISTENER) as near:
        if near.far.same_machine(me):
            same = "data directory" if near.far.home == me.home else "running kernel (boot id)"
            raise LoadError(f"Both halves of the run came to one host: {me.host} has the first one's {same}")
        ctx.progress(0, None, "measuring the network to the other host")
        around = AroundLoad(near, me)
        ctx.progress(0, None, "starting the processes of both hosts")
        begun = Begun.model_validate_json(near.tell(wire.BEGIN))
        if begun.error:
            raise StageError(f"The ranks of {near.far.host} did not start: {begun.error}")
        meeting = Meeting(1, first.address, begun.port, near.own_address)
        with on_host.training(job, run_id, order_path, ctx, meeting=meeting) as server:
            with followed(near, EVERY_S) as follow:
                failure = _ended(server, order_path.parent, ctx, follow)
            if failure or follow.failure or follow.lost:
                raise StageError(_both(near, me.host, failure, follow))
            if reason := near.tell(wire.END):
                raise StageError(f"The ranks of {near.far.host}: {reason}")
        link = around.ended()
    on_host.require_answers(on_host.own_answers(job, order_path.parent, 1), server.log_path)
    asked = [*around.before.exchanges, *thinned(follow.exchanges, MOST_EXCHANGES)]
    facts = SecondHost(
        facts=HostFacts.here(devices),
        link=link,
        exchanges=tuple((e.sent_ns, e.arrived_ns, e.answered_ns, e.received_ns) for e in asked),
    )
    return facts, server.sandbox


def _ended(server: ServerHandle, folder: Path, ctx: Context, follow: Follow) -> str:
    """How this host's ranks failed; "" where they ended well, and where the first host's failed before."""
    cancelled = replace(ctx, cancelled=lambda: ctx.cancelled() or follow.over)
    try:
        launch.wait(server, folder, cancelled)
    except CancelledError:
        if ctx.cancelled():
            raise
    except StageError as error:
        return str(error)
    return ""


def _both(near: NearSide, here: str, failure: str, follow: Follow) -> str:
    """What is known of the failure: of this host, of the first one, of the way between them.

    The ranks of one fail because of the other's; which were first is not told by two clocks.
    """
    there, lost = follow.failure, follow.lost
    deadline_s = time.monotonic() + _TELLS_WITHIN_S
    while not (there or lost) and time.monotonic() < deadline_s:
        try:
            there = near.tell(wire.STATE)
        except LoadError as error:
            lost = str(error)
        time.sleep(0.2)
    parts = [f"On {near.far.host}: {there}"] if there else []
    parts += [f"On {here}: {failure}"] if failure else []
    parts += [lost] if lost else []
    return "The run ended on both hosts. " + "\n".join(parts)
