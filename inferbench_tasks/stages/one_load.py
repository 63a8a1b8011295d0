"""One load from its orders to its certificate: what stage ``load`` does once, and a search for a rate many times."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.backends.first_answer import load_samples
from inferbench_tasks.contracts.handles import Endpoint, Handle, RequestSet, ServerHandle
from inferbench_tasks.contracts.link import LinkAround
from inferbench_tasks.contracts.located import LocatedPath
from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.requests.ragged import byte_count
from inferbench_tasks.sandbox import Watch, watched
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import SAMPLES_FILE, Input, plan_of
from inferbench_tasks.stages.prompted import options_of
from inferbench_tasks.stages.replica_watch import Counts, living, remarks, with_counts
from inferbench_tasks.stages.senders.handles import Away, TraceSender
from inferbench_tasks.stages.served_accuracy import ServedAccuracy
from inferbench_tasks.stages.spread.following import Following
from inferbench_tasks.stages.spread.handles import Followed

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.ceiling import Ceiling
    from inferbench_tasks.loadgen.certificate import Certificate
    from inferbench_tasks.loadgen.live import Snapshot
    from inferbench_tasks.loadgen.outcome import Outcome
    from inferbench_tasks.loadgen.plan import LoadPlan
    from inferbench_tasks.monitors.quiet import Patience
    from inferbench_tasks.stages.sending import Progress

MONITORS_FILE = "monitors.parquet"


class Output(Handle):
    """``samples_path``: Parquet, see ``loadgen.records``; ``monitors_path``: Parquet, see ``monitors.base``.

    ``measure_start_ns``/``measure_end_ns`` bound the measured window on CLOCK_MONOTONIC;
    ``epoch_offset_ns`` added to it gives Unix time. ``accuracy_ratio`` is the share of labelled
    samples whose answer, THROUGH the server, is right; None without labels.
    """

    samples_path: LocatedPath
    monitors_path: str | None
    measure_start_ns: int
    measure_end_ns: int
    epoch_offset_ns: int
    requests: int
    certificate: dict[str, Any]
    accuracy_ratio: float | None
    #: To how many of how many samples, and to which; None in outputs of before it was kept.
    accuracy: ServedAccuracy | None = None
    stopped_early: str | None = None
    #: What the other models of a share did in the same window, see ``sharing.neighbours``.
    neighbours: tuple[dict[str, Any], ...] = ()
    #: Whether the machine was quiet when the load began, see ``monitors.quiet.Patience``; None where nobody looked.
    quiet: dict[str, Any] | None = None
    #: MLPerf LoadGen's verdict, see ``loadgen.mlperf.MlperfVerdict``; its logs lie where it says.
    mlperf: dict[str, Any] | None = None
    #: The search for the highest rate, see ``stages.max_rate``; all else here is of the probe that it stands for.
    max_rate: dict[str, Any] | None = None
    #: Of streams of tokens their figures, and where the streams and chunks lie; see ``loadgen.token_load``.
    tokens: dict[str, Any] | None = None
    #: Of a load from another host: that host, and the way between both.
    away: Away | None = None
    #: What waits there to send it again for a trace of a share of its requests; None where there is to be none.
    trace_sender: TraceSender | None = None
    #: Of several servers that answer together: the samples that each counted, over the whole load.
    replica_samples: tuple[int, ...] = ()
    #: Of those on hosts of their own: the way there, and what was recorded there.
    followed: tuple[Followed, ...] = ()

    @property
    def links(self) -> tuple[LinkAround, ...]:
        """Those to other hosts, as they were measured around the load."""
        senders = (self.away.link, *(host.link for host in self.away.further)) if self.away else ()
        return (*senders, *(one.link for one in self.followed))

    @classmethod
    def of(
        cls, outcome: Outcome, certificate: dict[str, Any], patience: Patience | None, **more: Any
    ) -> Output:
        """What every load tells, whoever sent it; ``more``: what this one does beside."""
        return cls(
            samples_path=str(outcome.samples_path),
            measure_start_ns=outcome.measure_start_ns,
            measure_end_ns=outcome.measure_end_ns,
            epoch_offset_ns=outcome.epoch_offset_ns,
            requests=outcome.requests,
            certificate=certificate,
            accuracy_ratio=None,
            stopped_early=outcome.applied.stopped_early,
            quiet=patience.as_dict() if patience else None,
            **more,
        )


def apply(inp: Input, ctx: Context, folder: Path, endpoint: Endpoint) -> Output:
    """Apply the job's load once, with its monitors and its certificate; the records and all else lie in ``folder``.

    ``endpoint`` is the server, or the emulated network before it. The answers themselves are not looked at.
    """
    from inferbench_tasks.loadgen.chunk_ceiling import chunk_ceiling_check
    from inferbench_tasks.loadgen.outcome import apply_load
    from inferbench_tasks.loadgen.token_load import token_figures, words
    from inferbench_tasks.monitors.session import MonitorSession, metrics_address
    from inferbench_tasks.stages.neighbours import beside

    plan = plan_of(inp, ctx, folder / "load", endpoint)
    ceiling = client_ceiling(inp, plan, ctx)
    monitors_path = folder / MONITORS_FILE

    def cancelled() -> bool:
        return ctx.cancelled() or verdict.reason is not None or life.reason is not None or far.over

    patience = quiet_machine(inp.job.traffic.wait_for_quiet_s, ctx)
    metrics_url = metrics_address(inp.serve.endpoint, inp.serve.backend.drawn)
    here = inp.serve.replicas_here
    with (
        Following(inp.serve.far_replicas, folder, ctx) as far,
        beside(inp, ctx) as neighbours,
        MonitorSession(
            inp.serve.server,
            monitors_path,
            device=inp.job.serve.device,
            metrics_url=metrics_url,
            beside=[neighbour.server for neighbour in neighbours],
            replicas=[replica.server for replica in here[1:]],
            balancer=inp.serve.balancer.server if inp.serve.balancer else None,
        ),
        living(here, inp.serve.balancer) as life,
        watched(watches(inp, [neighbour.server for neighbour in neighbours])) as verdict,
    ):
        # Not before: of a host that is gone ``far`` says so, and waits whether the job is run again.
        counts = Counts.begun(inp.serve.replicas)
        outcome = apply_load(plan, folder / SAMPLES_FILE, progress=by_phase(plan, ctx), cancelled=cancelled)
    require_sent(outcome, verdict.reason or life.reason or far.failure)
    judged = outcome.certificate(plan)
    if plan.stream is not None and not inp.job.traffic.allow_unsafe_load:
        judged = judged.and_check(chunk_ceiling_check(outcome, ceiling))
    answered = counts.since()
    if answered:
        judged = with_counts(judged, answered, folder / SAMPLES_FILE)
    certificate = certificate_of(outcome, judged)
    start_ns, end_ns = outcome.measure_start_ns, outcome.measure_end_ns
    certificate["warnings"] += remarks(inp.serve.balancer, monitors_path, start_ns, end_ns)
    tokens = None
    if plan.stream is not None:
        tokens = token_figures(plan, outcome, options_of(inp.job).each, judged)
        certificate["warnings"] += words(plan, tokens)
    certificate["figures"]["ceiling"] = ceiling.model_dump()
    if patience and patience.warning:
        certificate["warnings"].append(patience.warning)
    followed = far.found(start_ns, end_ns)
    if followed:
        certificate["figures"]["replica_hosts"] = far.figures(followed)
        certificate["warnings"] += far.warnings(followed)
    return Output.of(
        outcome,
        certificate,
        patience,
        monitors_path=str(monitors_path),
        followed=followed,
        neighbours=tuple(n.figures(outcome.measure_start_ns, outcome.measure_end_ns) for n in neighbours),
        mlperf=outcome.mlperf.model_dump(mode="json") if outcome.mlperf else None,
        tokens=tokens,
        replica_samples=answered,
    )


def client_ceiling(inp: Input, plan: LoadPlan, ctx: Context) -> Ceiling:
    """What this host's client can send; InputError for a load above the safe share of it, unless that was allowed."""
    from inferbench_tasks.loadgen.ceiling import check_ceiling, check_processing
    from inferbench_tasks.loadgen.chunk_ceiling import check_chunk_ceiling

    ctx.progress(0, None, "checking that this client can send that much")
    unsafe, kept = inp.job.traffic.allow_unsafe_load, ctx.cache_dir("ceilings")
    if plan.stream is not None:
        ceiling = check_chunk_ceiling(plan, kept, allow_unsafe=unsafe)
    else:
        size = answer_bytes(inp.generate.requests, inp.job.traffic.samples_per_request)
        ceiling = check_ceiling(plan, size, kept, allow_unsafe=unsafe)
    if (processing := inp.generate.requests.processing) and plan.processing:
        check_processing(plan, processing.client_ms, allow_unsafe=unsafe)
    return ceiling


def by_phase(plan: LoadPlan, ctx: Context) -> Progress:
    """How a load goes, as the stage tells it."""

    def progress(done_s: float, total_s: float, snapshot: Snapshot | None) -> None:
        phase = "warm-up" if done_s * 1e9 < plan.measure_start_ns else "measuring"
        ctx.progress(min(done_s, total_s), total_s, f"{phase}: {snapshot.text()}" if snapshot else phase)

    return progress


def require_sent(outcome: Outcome, reason: str = "") -> None:
    """LoadError, or CancelledError, where no load came to its end; ``reason``: why it could not, known elsewhere."""
    applied = outcome.applied
    kept = f"{outcome.requests} records are kept in {outcome.samples_path}"
    if reason:
        raise LoadError(f"{reason}\n{kept}")
    if applied.cancelled:
        raise CancelledError(f"The load was cancelled; {kept}")
    if applied.problem:
        raise LoadError(f"{applied.problem}\n{kept}")
    if not applied.usages:
        raise LoadError(f"No sender came to its end in time, so that nobody knows what it used\n{kept}")
    if not outcome.requests:
        raise LoadError("The load ended without a single request; nothing was measured")


def watches(inp: Input, beside: Iterable[ServerHandle]) -> list[tuple[str, Watch]]:
    """The servers that a load could make too large, each with its name; a container's engine holds it to limits."""
    servers = [
        *((replica.name, replica.server) for replica in inp.serve.replicas_here),
        *([] if inp.serve.replicas else [("The server", inp.serve.server)]),
        *([("The balancer", inp.serve.balancer.server)] if inp.serve.balancer else []),
        *(("The server of another model", server) for server in beside),
    ]
    return [(name, Watch(s.pid, s.uid)) for name, s in servers if s.launcher == "process" and s.pid]


def quiet_machine(limit_s: float, ctx: Context) -> Patience | None:
    """Wait for a quiet machine and say so; None where the user has disturbances noted only, who wants no waiting."""
    from inferbench_tasks.metrics.interference import MODE, NOTE
    from inferbench_tasks.monitors.quiet import wait_for_quiet

    if os.environ.get(MODE) == NOTE:
        return None

    def progress(waited_s: float, text: str) -> None:
        ctx.progress(waited_s, limit_s, f"waiting for a quiet machine: {text}")

    ctx.progress(0, None, "looking whether the machine is quiet")
    patience = wait_for_quiet(limit_s, progress=progress, cancelled=ctx.cancelled)
    if patience.warning:
        ctx.progress(0, None, f"going on: {patience.warning}")
    return patience


def answer_bytes(requests: RequestSet, samples: int) -> int:
    """The size of the tensors in an answer to so many samples."""
    reference = load_samples(requests.answered_path)
    return samples * sum(byte_count(array) // max(1, len(array)) for array in reference.values())


def certificate_of(outcome: Outcome, judged: Certificate) -> dict[str, Any]:
    """The certificate as plain data, with the first words of each kind of failure among its warnings."""
    certificate = judged.model_dump()
    certificate["warnings"] += outcome.warnings
    for kind, text in outcome.applied.explanations.items():
        certificate["warnings"].append(f"first {kind}: {text}")
    return certificate
