"""Part of ``load``: one load whose server is on another host, from its orders to its certificate.

The senders' records, the certificate and this host's monitors are of this host; the server's host is watched by a
process that stands beside the server (``far_watch``). Exchanges with it all the while tell how the two clocks lie, so
that ``collect`` can put the recordings of both hosts on one. Where several hosts share the load this one leads, and has
the records of all (``together``).
"""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from inferbench_tasks import settings
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.contracts.sending_hosts import ORDINALS
from inferbench_tasks.errors import LoadError
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.around import warnings
from inferbench_tasks.networks.links.following import its_state
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import SAMPLES_FILE, Input, plan_of
from inferbench_tasks.stages.one_load import (
    Output,
    by_phase,
    certificate_of,
    client_ceiling,
    quiet_machine,
    require_sent,
)
from inferbench_tasks.stages.senders.handles import NEAR_FILE, Away
from inferbench_tasks.stages.senders.own_side import own_side

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.certificate import Certificate
    from inferbench_tasks.loadgen.live import Snapshot
    from inferbench_tasks.loadgen.outcome import Outcome
    from inferbench_tasks.loadgen.plan import LoadPlan
    from inferbench_tasks.stages.senders.handles import FurtherHost
    from inferbench_tasks.stages.senders.together import Together

#: Who is connected to, in what is said where that fails.
LISTENER = "the watch that `serve` started beside the server"


def apply(inp: Input, ctx: Context, folder: Path, endpoint: Endpoint) -> Output:
    """Apply the job's load once to a server of another host; the records and all else lie in ``folder``, here."""
    from inferbench_tasks.loadgen.controller import Controller
    from inferbench_tasks.loadgen.outcome import apply_load

    if inp.serve.far is None:
        raise LoadError("The server was started for a load of its own host; serve it again")
    whole, beside = _planned(inp, ctx, folder / "load", endpoint)
    plan = beside.plan if beside else whole
    ceiling = client_ceiling(inp, plan, ctx)
    home = settings.home_id(ctx.data_dir)
    me = LinkEnd(host=socket.gethostname(), home=home, address="", boot_id=settings.boot_id())
    told = by_phase(plan, ctx)

    def progress(done_s: float, total_s: float, snapshot: Snapshot | None) -> None:
        told(done_s, total_s, beside.with_theirs(snapshot) if beside else snapshot)

    # Connected before the wait: the far side's patience has an end, and a wrong host is told at once.
    with ExitStack() as stack:
        side = stack.enter_context(own_side(inp.serve.far, me, listener=LISTENER, what="The load"))
        if beside:
            stack.enter_context(beside)
        patience = quiet_machine(inp.job.traffic.wait_for_quiet_s, ctx)
        ctx.progress(0, None, "measuring the network to the server's host")
        side.measure()
        if beside:
            beside.prepare(me, ctx.cancelled, lambda text: ctx.progress(0, None, text))
        if reason := side.near.tell(wire.BEGIN):
            raise LoadError(f"The server's host is not watched: {reason}")
        with side.recorded(folder / NEAR_FILE, its_state) as follow:

            def cancelled() -> bool:
                return ctx.cancelled() or bool(follow.failure) or bool(beside and beside.over)

            outcome = apply_load(
                plan,
                folder / SAMPLES_FILE,
                progress=progress,
                cancelled=cancelled,
                applying=beside.apply if beside else Controller.apply,
            )
        unwatched = follow.lost
        try:
            excess = follow.failure or side.near.tell(wire.END)
        except LoadError as error:
            excess, unwatched = "", unwatched or str(error)
        # What ended this host's part may have been another one's: that is no user's cancelling. Of a load that failed
        # nobody reads how its link was afterwards.
        require_sent(outcome, excess or ("" if ctx.cancelled() else outcome.applied.problem or ""))
        link = side.measure_again()
        window = outcome.measure_start_ns, outcome.measure_end_ns
        further = beside.closed(folder, window) if beside else []
    judged = outcome.certificate(whole)
    if beside:
        judged = _judged_by_host(judged, whole, outcome, beside)
    certificate = certificate_of(outcome, judged)
    certificate["figures"]["ceiling"] = ceiling.model_dump()
    certificate["warnings"] += warnings(link)
    for which, (host, its_ceiling) in zip(ORDINALS, further, strict=False):
        certificate["figures"][f"{which}_ceiling"] = its_ceiling
        certificate["warnings"] += of_further(host)
    if patience and patience.warning:
        certificate["warnings"].append(patience.warning)
    place = side.placed(*window)
    away = Away(
        **side.facts(*window).facts,
        host=me.host,
        monitors_path=str(folder / NEAR_FILE),
        ahead_ns=place and place.offset_ns,
        error_ns=place and place.error_ns,
        unwatched=unwatched,
        shards=tuple(plan.own) if beside else (),
        further=tuple(host for host, _ in further),
    )
    return Output.of(outcome, certificate, patience, monitors_path=None, away=away)


def _planned(inp: Input, ctx: Context, folder: Path, endpoint: Endpoint) -> tuple[LoadPlan, Together | None]:
    """The plan of the whole load, and the hosts that send a part of it each, where there are some."""
    hosts = inp.job.shared_load
    if hosts is None:
        return plan_of(inp, ctx, folder, endpoint), None
    from inferbench_tasks.loadgen.prepare import senders_here
    from inferbench_tasks.stages.senders.together import Together

    waiting = inp.standing_by
    if len(waiting) != hosts - 1:
        raise LoadError(
            f"{len(waiting)} client hosts wait beside this one, the load is of {hosts}; have the job begin again"
        )
    each = min(senders_here(inp.job.traffic, ctx.base_dir), *(one.senders for one in waiting))
    whole = plan_of(inp, ctx, folder, endpoint, hosts * each)
    return whole, Together(waiting, whole)


def of_further(host: FurtherHost) -> list[str]:
    """What the figures should be read with for a further client host, by its name."""
    told = [*warnings(host.link), *([host.not_quiet] if host.not_quiet else [])]
    return [f"{host.host}: {words}" for words in told]


def _judged_by_host(judged: Certificate, plan: LoadPlan, outcome: Outcome, beside: Together) -> Certificate:
    """The certificate of the whole load, with what is held against it for one of its hosts."""
    from inferbench_tasks.loadgen.prepare import promised
    from inferbench_tasks.loadgen.sender_hosts import failing, host_checks

    window = outcome.measure_start_ns, outcome.judged_end_ns or outcome.measure_end_ns
    checks, hosts = host_checks(
        outcome.table(for_figures=True),
        promised(plan, outcome.applied.start_ns, *window),
        outcome.applied.usages,
        beside.senders,
        window,
        judged.thresholds,
    )
    for check in checks:
        judged = judged.and_check(check)
    judged.figures["sender_hosts"] = hosts
    judged.warnings.extend(failing(hosts, plan.max_error_ratio))
    return judged
