"""Stage ``load``: the traffic, and the raw record of every request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.backends.first_answer import load_samples
from inferbench_tasks.backends.probes.base import Refused, open_probe
from inferbench_tasks.contracts.handles import Endpoint, Handle, RequestSet
from inferbench_tasks.errors import CancelledError, LoadError
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.networks.base import emulated
from inferbench_tasks.stages.base import Context, Stage
from inferbench_tasks.stages.load_order import SAMPLES_FILE, plan_of
from inferbench_tasks.stages.load_order import Input as Input

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.live import Snapshot
    from inferbench_tasks.loadgen.outcome import Outcome
    from inferbench_tasks.monitors.quiet import Patience

STAGE = Stage(needs=("generate", "serve"), leased=True)
MONITORS_FILE = "monitors.parquet"


class Output(Handle):
    """``samples_path``: Parquet, see ``loadgen.records``; ``monitors_path``: Parquet, see ``monitors.base``.

    ``measure_start_ns``/``measure_end_ns`` bound the measured window on CLOCK_MONOTONIC;
    ``epoch_offset_ns`` added to it gives Unix time. ``accuracy_ratio`` is the share of labelled
    samples whose answer, THROUGH the server, is right; None without labels.
    """

    samples_path: str
    monitors_path: str | None
    measure_start_ns: int
    measure_end_ns: int
    epoch_offset_ns: int
    requests: int
    certificate: dict[str, Any]
    accuracy_ratio: float | None
    stopped_early: str | None = None
    #: What the other models of a share did in the same window, see ``sharing.neighbours``.
    neighbours: tuple[dict[str, Any], ...] = ()
    #: Whether the machine was quiet when the load began, see ``monitors.quiet.Patience``; None where nobody looked.
    quiet: dict[str, Any] | None = None
    #: MLPerf LoadGen's verdict, see ``loadgen.mlperf.MlperfVerdict``; its logs lie where it says.
    mlperf: dict[str, Any] | None = None


def run(inp: Input, ctx: Context) -> Output:
    """Apply the load with the monitors running; every record made is kept, whatever happens."""
    folder = ctx.run_dir(inp.run_id)
    with emulated(inp.job.load.network, inp.serve.endpoint, folder, inp.job.load.seed) as endpoint:
        return _run(inp, ctx, folder, endpoint)


def _run(inp: Input, ctx: Context, folder: Path, endpoint: Endpoint) -> Output:
    """``endpoint`` is the server, or the emulated network before it."""
    from inferbench_tasks.loadgen.ceiling import check_ceiling, check_processing
    from inferbench_tasks.loadgen.outcome import apply_load
    from inferbench_tasks.monitors.session import MonitorSession, metrics_address
    from inferbench_tasks.stages.neighbours import beside

    plan = plan_of(inp, ctx, folder / "load", endpoint)
    ctx.progress(0, None, "checking that this client can send that much")
    ceiling = check_ceiling(
        plan,
        answer_bytes(inp.generate.requests, inp.job.load.samples_per_request),
        ctx.cache_dir("ceilings"),
        allow_unsafe=inp.job.load.allow_unsafe_load,
    )
    if (processing := inp.generate.requests.processing) and plan.processing:
        check_processing(plan, processing.client_ms, allow_unsafe=inp.job.load.allow_unsafe_load)
    samples_path, monitors_path = folder / SAMPLES_FILE, folder / MONITORS_FILE

    def progress(done_s: float, total_s: float, snapshot: Snapshot | None) -> None:
        phase = "warm-up" if done_s * 1e9 < plan.measure_start_ns else "measuring"
        ctx.progress(min(done_s, total_s), total_s, f"{phase}: {snapshot.text()}" if snapshot else phase)

    patience = quiet_machine(inp.job.load.wait_for_quiet_s, ctx)
    metrics_url = metrics_address(inp.serve.endpoint, inp.serve.backend.settings)
    with (
        beside(inp, ctx) as neighbours,
        MonitorSession(
            inp.serve.server,
            monitors_path,
            device=inp.job.serve.device,
            metrics_url=metrics_url,
            beside=[neighbour.server for neighbour in neighbours],
        ),
    ):
        outcome = apply_load(plan, samples_path, progress=progress, cancelled=ctx.cancelled)
    applied = outcome.applied
    if applied.cancelled:
        raise CancelledError(f"The load was cancelled; {outcome.requests} records are kept in {samples_path}")
    if applied.problem:
        raise LoadError(f"{applied.problem}\n{outcome.requests} records are kept in {samples_path}")
    if not outcome.requests:
        raise LoadError("The load ended without a single request; nothing was measured")
    certificate = certificate_of(outcome, plan)
    certificate["figures"]["ceiling"] = ceiling.model_dump()
    if patience and patience.warning:
        certificate["warnings"].append(patience.warning)
    return Output(
        samples_path=str(samples_path),
        monitors_path=str(monitors_path),
        measure_start_ns=outcome.measure_start_ns,
        measure_end_ns=outcome.measure_end_ns,
        epoch_offset_ns=outcome.epoch_offset_ns,
        requests=outcome.requests,
        certificate=certificate,
        accuracy_ratio=accuracy_through_server(inp.serve.endpoint, inp.generate.requests, ctx),
        stopped_early=applied.stopped_early,
        neighbours=tuple(n.figures(outcome.measure_start_ns, outcome.measure_end_ns) for n in neighbours),
        quiet=patience.as_dict() if patience else None,
        mlperf=outcome.mlperf.model_dump(mode="json") if outcome.mlperf else None,
    )


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
    return samples * sum(array.nbytes // max(1, len(array)) for array in reference.values())


def certificate_of(outcome: Outcome, plan: LoadPlan) -> dict[str, Any]:
    """The certificate as plain data, with the first words of each kind of failure among its warnings."""
    certificate = outcome.certificate(plan).model_dump()
    certificate["warnings"] += outcome.warnings
    for kind, text in outcome.applied.explanations.items():
        certificate["warnings"].append(f"first {kind}: {text}")
    return certificate


def accuracy_through_server(endpoint: Endpoint, requests: RequestSet, ctx: Context) -> float | None:
    """The share of right answers over all labelled samples, one request each; None without labels.

    A pass of its own, after the load, so that looking at answers costs nothing in the timing.
    """
    if requests.labels_path is None:
        return None
    if requests.processing and requests.processing.answered_path and requests.processing.after:
        return None  # the server answers names or boxes, not scores
    labels: NDArray[np.int64] = np.load(requests.labels_path, allow_pickle=False)
    samples = load_samples(requests.sent_path)
    reference = load_samples(requests.answered_path)
    probe = open_probe(endpoint)
    right = 0
    try:
        for index, label in enumerate(labels.tolist()):
            if index % 50 == 0:
                ctx.progress(index, len(labels), f"checking answers: {index} of {len(labels)} samples")
                if ctx.cancelled():
                    raise CancelledError("Cancelled while the answers were checked")
            answer = probe.infer({name: array[index : index + 1] for name, array in samples.items()})
            right += is_right(answer, reference, label)
    except (Refused, OSError) as error:
        raise LoadError(f"Sample {index} got no answer when the accuracy was checked: {error}") from error
    finally:
        probe.close()
    return right / len(labels)


def is_right(answer: dict[str, NDArray[Any]], reference: dict[str, NDArray[Any]], label: int) -> bool:
    """Whether the answer to one sample names its label: as a class id, or by its largest score."""
    names = [name for name in reference if name in answer] or list(answer)
    for name in names:
        output = answer[name]
        if output.dtype.kind in "iu" and output.size == 1:
            return int(output.reshape(-1)[0]) == label
    scores = answer[names[0]].reshape(-1)
    return bool(np.isfinite(scores).all() and int(np.argmax(scores)) == label)
