"""Part of ``load``: one load whose server is on another host, from its orders to its certificate.

The senders' records, the certificate and this host's monitors are of this host; the server's host is watched by a
process that stands beside the server (``far_watch``). Exchanges with it all the while tell how the two clocks lie, so
that ``collect`` can put the recordings of both hosts on one. Where two hosts share the load this one leads, and has the
records of both (``second_client``).
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
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
from inferbench_tasks.stages.away import ASK_EVERY, EVERY_S, NEAR_FILE, Away
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import SAMPLES_FILE, Input, plan_of
from inferbench_tasks.stages.one_load import Output, answer_bytes, certificate_of, quiet_machine

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.certificate import Certificate
    from inferbench_tasks.loadgen.controller import Applied
    from inferbench_tasks.loadgen.live import Snapshot
    from inferbench_tasks.loadgen.outcome import Outcome
    from inferbench_tasks.loadgen.plan import LoadPlan
    from inferbench_tasks.stages.away import SecondHost
    from inferbench_tasks.stages.second_client import SecondClient

#: Who is connected to, in what is said where that fails.
LISTENER = "the watch that `serve` started beside the server"


def apply(inp: Input, ctx: Context, folder: Path, endpoint: Endpoint) -> Output:
    """Apply the job's load once to a server of another host; the records and all else lie in ``folder``, here."""
    from inferbench_tasks.loadgen.ceiling import check_ceiling, check_processing
    from inferbench_tasks.loadgen.controller import Controller
    from inferbench_tasks.loadgen.outcome import apply_load
    from inferbench_tasks.monitors import environment
    from inferbench_tasks.monitors.session import MonitorSession

    if inp.serve.far is None:
        raise LoadError("The server was started for a load of its own host; serve it again")
    whole, beside = _planned(inp, ctx, folder / "load", endpoint)
    plan = beside.plan if beside else whole
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
        snapshot = beside.with_theirs(snapshot) if beside else snapshot
        ctx.progress(min(done_s, total_s), total_s, f"{phase}: {snapshot.text()}" if snapshot else phase)

    # Connected before the wait: the far side's patience has an end, and a wrong host is told at once.
    with ExitStack() as stack:
        near = stack.enter_context(NearSide(inp.serve.far.invitation, listener=LISTENER))
        if beside:
            stack.enter_context(beside)
        if near.far.same_machine(me):
            same = "data directory" if near.far.home == me.home else "running kernel (boot id)"
            raise LoadError(f"The load came to the server's own host: {me.host} has its {same}")
        patience = quiet_machine(inp.job.traffic.wait_for_quiet_s, ctx)
        ctx.progress(0, None, "measuring the network to the server's host")
        around = AroundLoad(near, me)
        if beside:
            ctx.progress(0, None, f"getting {beside.host} ready, which sends a part of the load")
            beside.prepare(me, ctx.cancelled)
        if reason := near.tell(wire.BEGIN):
            raise LoadError(f"The server's host is not watched: {reason}")
        watching = followed(near, EVERY_S, ASK_EVERY)
        with MonitorSession.of_client(monitors_path), watching as follow:

            def cancelled() -> bool:
                return ctx.cancelled() or bool(follow.failure) or bool(beside and beside.over)

            applying = beside.apply if beside else Controller.apply
            outcome = apply_load(
                plan,
                samples_path,
                progress=progress,
                cancelled=cancelled,
                applying=applying,
            )
        unwatched = follow.lost
        try:
            excess = follow.failure or near.tell(wire.END)
        except LoadError as error:
            excess, unwatched = "", unwatched or str(error)
        link = around.ended()
        applied = outcome.applied
        _require_sent(outcome, excess)
        second, their_ceiling = beside.closed(folder) if beside else (None, None)
    judged = outcome.certificate(whole)
    if beside and second:
        judged = _judged_by_host(judged, whole, outcome, beside, second)
    certificate = certificate_of(outcome, judged)
    certificate["figures"]["ceiling"] = ceiling.model_dump()
    certificate["warnings"] += warnings(link)
    if second:
        certificate["figures"]["second_ceiling"] = their_ceiling
        certificate["warnings"] += of_second(second)
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
            shards=tuple(plan.own) if second else (),
            second=second,
        ),
    )


def _planned(
    inp: Input, ctx: Context, folder: Path, endpoint: Endpoint
) -> tuple[LoadPlan, SecondClient | None]:
    """The plan of the whole load, and the host that sends a part of it, where there is one."""
    hosts = inp.job.shared_load
    if hosts is None:
        return plan_of(inp, ctx, folder, endpoint), None
    from inferbench_tasks.loadgen.prepare import senders_here
    from inferbench_tasks.stages.second_client import SecondClient

    if inp.standby is None:
        raise LoadError("Nothing waits on the second client host; have the job begin again")
    each = min(senders_here(inp.job.traffic, ctx.base_dir), inp.standby.senders)
    whole = plan_of(inp, ctx, folder, endpoint, hosts * each)
    return whole, SecondClient(inp.standby, whole, hosts)


def of_second(second: SecondHost) -> list[str]:
    """What the figures should be read with for the second client host, by its name."""
    told = [*warnings(second.link), *([second.not_quiet] if second.not_quiet else [])]
    return [f"{second.host}: {words}" for words in told]


def _require_sent(outcome: Outcome, excess: str) -> None:
    """LoadError, or CancelledError, where no load came to its end; ``excess``: what is wrong with the server."""
    applied: Applied = outcome.applied
    kept = f"{outcome.requests} records are kept in {outcome.samples_path}"
    if excess:
        raise LoadError(f"{excess}\n{kept}")
    if applied.problem:
        raise LoadError(f"{applied.problem}\n{kept}")
    if applied.cancelled:
        raise CancelledError(f"The load was cancelled; {kept}")
    if not applied.usages:
        raise LoadError(f"No sender came to its end in time, so that nobody knows what it used\n{kept}")
    if not outcome.requests:
        raise LoadError("The load ended without a single request; nothing was measured")


def _judged_by_host(
    judged: Certificate, plan: LoadPlan, outcome: Outcome, beside: SecondClient, second: SecondHost
) -> Certificate:
    """The certificate of the whole load, with what is held against it for one of its hosts."""
    from inferbench_tasks.loadgen.prepare import promised
    from inferbench_tasks.loadgen.sender_hosts import host_checks

    window = outcome.measure_start_ns, outcome.judged_end_ns or outcome.measure_end_ns
    checks, hosts = host_checks(
        outcome.table(for_figures=True),
        promised(plan, outcome.applied.start_ns, *window),
        outcome.applied.usages,
        beside.senders(second),
        window,
        judged.thresholds,
    )
    for check in checks:
        judged = judged.and_check(check)
    judged.figures["sender_hosts"] = hosts
    return judged
