"""Part of ``load``: one load whose server is on another host, from its orders to its certificate.

The senders' records, the certificate and this host's monitors are of this host; the server's host is watched by a
process that stands beside the server (``far_watch``). Exchanges with it all the while tell how the two clocks lie, so
that ``collect`` can put the recordings of both hosts on one.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.around import AroundLoad, warnings
from inferbench_tasks.networks.links.following import followed
from inferbench_tasks.networks.links.near_side import NearSide
from inferbench_tasks.stages.away import NEAR_FILE, Away
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import SAMPLES_FILE, Input, plan_of
from inferbench_tasks.stages.one_load import Output, answer_bytes, certificate_of, quiet_machine

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.live import Snapshot

#: Between two exchanges, and how many of them pass before the far side is asked how the server does.
EVERY_S, STATE_EVERY = 0.25, 4
#: Who is connected to, in what is said where that fails.
LISTENER = "the watch that `serve` started beside the server"


def apply(inp: Input, ctx: Context, folder: Path, endpoint: Endpoint) -> Output:
    """Apply the job's load once to a server of another host; the records and all else lie in ``folder``, here."""
    from inferbench_tasks.loadgen.ceiling import check_ceiling, check_processing
    from inferbench_tasks.loadgen.outcome import apply_load
    from inferbench_tasks.monitors import environment
    from inferbench_tasks.monitors.session import MonitorSession

    if inp.serve.far is None:
        raise LoadError("The server was started for a load of its own host; serve it again")
    plan = plan_of(inp, ctx, folder / "load", endpoint)
    ctx.progress(0, None, "checking that this client can send that much")
    unsafe = inp.job.traffic.allow_unsafe_load
    size = answer_bytes(inp.generate.requests, inp.job.traffic.samples_per_request)
    ceiling = check_ceiling(plan, size, ctx.cache_dir("ceilings"), allow_unsafe=unsafe)
    if (processing := inp.generate.requests.processing) and plan.processing:
        check_processing(plan, processing.client_ms, allow_unsafe=unsafe)
    samples_path, monitors_path = folder / SAMPLES_FILE, folder / NEAR_FILE
    home = settings.home_id(ctx.data_dir)
    me = LinkEnd(host=socket.gethostname(), home=home, address="", boot_id=settings.boot_id())

    def progress(done_s: float, total_s: float, snapshot: Snapshot | None) -> None:
        phase = "warm-up" if done_s * 1e9 < plan.measure_start_ns else "measuring"
        ctx.progress(min(done_s, total_s), total_s, f"{phase}: {snapshot.text()}" if snapshot else phase)

    # Connected before the wait: the far side's patience has an end, and a wrong host is told at once.
    with NearSide(inp.serve.far.invitation, listener=LISTENER) as near:
        if near.far.same_machine(me):
            same = "data directory" if near.far.home == me.home else "running kernel (boot id)"
            raise LoadError(f"The load came to the server's own host: {me.host} has its {same}")
        patience = quiet_machine(inp.job.traffic.wait_for_quiet_s, ctx)
        ctx.progress(0, None, "measuring the network to the server's host")
        around = AroundLoad(near, me)
        if reason := near.tell(wire.BEGIN):
            raise LoadError(f"The server's host is not watched: {reason}")
        with MonitorSession.of_client(monitors_path), followed(near, EVERY_S, STATE_EVERY) as follow:
            outcome = apply_load(
                plan,
                samples_path,
                progress=progress,
                cancelled=lambda: ctx.cancelled() or bool(follow.failure),
            )
        unwatched = follow.lost
        try:
            excess = follow.failure or near.tell(wire.END)
        except LoadError as error:
            excess, unwatched = "", unwatched or str(error)
        link = around.ended()
    applied, kept = outcome.applied, f"{outcome.requests} records are kept in {samples_path}"
    if excess:
        raise LoadError(f"{excess}\n{kept}")
    if applied.cancelled:
        raise CancelledError(f"The load was cancelled; {kept}")
    if applied.problem:
        raise LoadError(f"{applied.problem}\n{kept}")
    if not applied.usages:
        raise LoadError(f"No sender came to its end in time, so that nobody knows what it used\n{kept}")
    if not outcome.requests:
        raise LoadError("The load ended without a single request; nothing was measured")
    certificate = certificate_of(outcome, outcome.certificate(plan))
    certificate["figures"]["ceiling"] = ceiling.model_dump()
    certificate["warnings"] += warnings(link)
    if patience and patience.warning:
        certificate["warnings"].append(patience.warning)
    asked = [*around.before.exchanges, *follow.exchanges]
    return Output(
        samples_path=str(samples_path),
        monitors_path=None,
        measure_start_ns=outcome.measure_start_ns,
        measure_end_ns=outcome.measure_end_ns,
        epoch_offset_ns=outcome.epoch_offset_ns,
        requests=outcome.requests,
        certificate=certificate,
        accuracy_ratio=None,
        stopped_early=applied.stopped_early,
        quiet=patience.as_dict() if patience else None,
        away=Away(
            host=me.host,
            hardware=environment.hardware(),
            system=environment.system(),
            link=link,
            exchanges=tuple((e.sent_ns, e.arrived_ns, e.answered_ns, e.received_ns) for e in asked),
            monitors_path=str(monitors_path),
            unwatched=unwatched,
        ),
    )
