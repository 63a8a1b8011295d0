"""The other models of a share: served and loaded beside the one that a job measures."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from inferbench_tasks import settings
from inferbench_tasks.clients.base import CANCELLED
from inferbench_tasks.contracts.handles import ServerHandle
from inferbench_tasks.contracts.verdict import Reason, reasons_of
from inferbench_tasks.errors import LoadError
from inferbench_tasks.launchers import records
from inferbench_tasks.loadgen.client_share import withhold
from inferbench_tasks.loadgen.outcome import Outcome, apply_load
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.records import read_samples
from inferbench_tasks.loadgen.summary import summarise
from inferbench_tasks.loadgen.window import Window
from inferbench_tasks.networks.base import emulated
from inferbench_tasks.stages import convert, generate, load_order, serve
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.share import OWN, NeighbourSpec

log = logging.getLogger(__name__)

#: A neighbour's load is planned for so much longer than what it goes on beside, and is ended with it.
_LONGER_S = 120.0
_END_S = 30.0
#: Requests on their way when a neighbour's load is ended have no end of their own. Its window is judged up to the first
#: of them if that leaves out no more than this share; else they count as failed.
_MOST_OPEN_RATIO = 0.1


def run_id_of(run_id: str, position: int) -> str:
    """The id under which a neighbour's server and files are kept."""
    return f"{run_id}.beside{position}"


def job_of(job: JobSpec, neighbour: NeighbourSpec) -> JobSpec:
    """What the neighbour does, as a job: its load lasts until the measured one is over."""
    data = job.model_dump(mode="json", exclude_defaults=True, exclude={"share", "processors", "slo"})
    fields = neighbour.model_dump(mode="json")
    data |= {name: fields[name] for name in OWN if fields[name] is not None}
    data["share"] = {"method": job.share.method if job.share else "colocate"}
    data["share"] |= {name: fields[name] for name in ("cores", "percentage") if fields[name]}
    data["load"]["duration_s"] = job.traffic.warmup_s + job.traffic.duration_s + _LONGER_S
    data["load"].pop("max_requests", None)
    return JobSpec.model_validate(data)


def end_all(job: JobSpec, servers_dir: Path, run_id: str) -> bool:
    """End the neighbours' servers of a run; whether there was one."""
    beside = job.share.beside if job.share else ()
    ended = [records.end_run(servers_dir, run_id_of(run_id, at)) for at in range(len(beside))]
    return any(ended)


@contextmanager
def beside(inp: load_order.Input, ctx: Context) -> Iterator[list[Neighbour]]:
    """All neighbours under load until the end of the ``with``, and then none of them running.

    Raises what their stages raise, and LoadError if a neighbour's load ended while it was needed.
    """
    share = inp.job.share
    if share is None or not share.beside:
        yield []
        return
    with ExitStack() as stack:
        stack.callback(end_all, inp.job, settings.servers_dir(ctx.data_dir), inp.run_id)
        neighbours = []
        for at, spec in enumerate(share.beside):
            run_id = run_id_of(inp.run_id, at)
            ctx.progress(at, len(share.beside), f"starting neighbour {at + 1} of {len(share.beside)}")
            neighbours.append(Neighbour(run_id, stack, _input(inp, run_id, job_of(inp.job, spec), ctx), ctx))
        for neighbour in neighbours:
            neighbour.start()
            stack.callback(neighbour.stop)
        yield neighbours
        for neighbour in neighbours:
            neighbour.stop()


def _input(inp: load_order.Input, run_id: str, job: JobSpec, ctx: Context) -> load_order.Input:
    """Generate, convert and serve it."""
    about: dict[str, Any] = {"run_id": run_id, "job_id": inp.job_id, "job": job}
    model = ctx.run_stage(generate, generate.Input(**about), ctx)
    converted = ctx.run_stage(convert, convert.Input(**about, generate=model), ctx)
    served = serve.run(serve.Input(**about, generate=model, convert=converted), ctx)
    return load_order.Input(**about, generate=model, serve=served)


def judged_until(table: pa.Table, start_ns: int, end_ns: int) -> int:
    """Where the window of a neighbour ends, whose load was ended in the midst of requests."""
    window = Window.of(table, start_ns, end_ns)
    ended = [code for code, name in enumerate(window.status_names) if name == CANCELLED]
    flying = window.intended_ns[window.measured & (window.sent_ns >= 0) & np.isin(window.status, ended)]
    first_ns = int(flying.min(initial=end_ns))
    return first_ns if end_ns - first_ns <= _MOST_OPEN_RATIO * (end_ns - start_ns) else end_ns


def reasons(neighbours: Sequence[dict[str, Any]]) -> list[Reason]:
    """Why a result beside them is not valid, for its verdict: a load that was not there slows nothing down."""
    return [
        reason.within("neighbour", f"the neighbour {neighbour['model']}")
        for neighbour in neighbours
        for reason in reasons_of(neighbour.get("certificate", {}))
    ]


class Neighbour:
    """One neighbour's load, in a thread that waits for its sender processes."""

    def __init__(self, run_id: str, stack: ExitStack, inp: load_order.Input, ctx: Context) -> None:
        self._inp = inp
        folder = ctx.run_dir(run_id)
        load = inp.job.traffic
        endpoint = stack.enter_context(emulated(load.network, inp.serve.endpoint, folder, load.seed))
        self._plan: LoadPlan = load_order.plan_of(inp, ctx, folder / "load", endpoint)
        self._samples = folder / load_order.SAMPLES_FILE
        self._over, self._under_way = threading.Event(), threading.Event()
        self._outcome: Outcome | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._apply, name=run_id)

    @property
    def server(self) -> ServerHandle:
        """The handle of the server that this neighbour's requests go to."""
        return self._inp.serve.server

    def start(self) -> None:
        """Returns once its requests are on the way."""
        self._thread.start()
        while not self._under_way.wait(0.05):
            if not self._thread.is_alive():
                raise LoadError(f"A neighbour's load did not begin: {self._problem}")

    def stop(self) -> None:
        """End its load; harmless when ended."""
        self._over.set()
        self._thread.join(_END_S)

    def figures(self, start_ns: int, end_ns: int) -> dict[str, Any]:
        """Its own figures within the window of the job that is measured, and whether its load was as promised.

        LoadError if it did not last.
        """
        if self._problem is not None or self._outcome is None:
            raise LoadError(
                f"The load of the neighbour {self._plan.endpoint.model_name} failed: {self._problem}"
            )
        applied = self._outcome.applied
        if not applied.cancelled:
            why = applied.problem or applied.stopped_early or "it came to its end"
            raise LoadError(f"The load of the neighbour {self._plan.endpoint.model_name} ended early: {why}")
        job, table = self._inp.job, read_samples(self._samples)
        end_ns = judged_until(table, start_ns, end_ns)
        summary = summarise(table, measure_start_ns=start_ns, measure_end_ns=end_ns)
        certificate = self._outcome.certificate(self._plan, window_ns=(start_ns, end_ns))
        withhold(summary, certificate.withheld)
        return {
            "model": self._inp.generate.model.name,
            "backend": self._inp.serve.backend.label,
            "cores": list(job.share.cores) if job.share else [],
            "percentage": job.share.percentage if job.share else None,
            "e2e_latency_ms": summary["e2e_latency_ms"],
            "throughput_rps": summary["throughput_rps"],
            "errors": summary["errors"],
            "error_ratio": summary["error_ratio"],
            "certificate": certificate.model_dump(include={"valid", "reasons", "figures"}),
        }

    def _apply(self) -> None:
        def progress(done_s: float, total_s: float, snapshot: object) -> None:
            if done_s * 1e9 >= self._plan.measure_start_ns:
                self._under_way.set()

        try:
            self._outcome = apply_load(
                self._plan, self._samples, progress=progress, cancelled=self._over.is_set
            )
        except Exception as error:
            log.exception("a neighbour's load failed")
            self._problem = error
