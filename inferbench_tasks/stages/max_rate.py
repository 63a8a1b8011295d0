"""Part of ``load``: the highest rate that keeps the objective, by probes of which each is a whole load.

A probe has its own senders, monitors and certificate. One whose stimulus was not right, or whose machine was disturbed,
says nothing of its rate. What the run's other figures are made from is the probe at the highest rate that was kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.arrivals.max_rate import AROUND_PROBE_S, MaxRate
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError, LoadError
from inferbench_tasks.stages import one_load
from inferbench_tasks.stages.base import Context
from inferbench_tasks.stages.load_order import SAMPLES_FILE, Input, plan_of
from inferbench_tasks.stages.one_load import Output
from inferbench_tasks.stages.replica_watch import Life

if TYPE_CHECKING:
    from inferbench_tasks.contracts.verdict import Verdict
    from inferbench_tasks.loadgen.rate_search import Finding, RateSearch, Try
    from inferbench_tasks.submission.slo import SloSpec

#: Where a probe's files lie, below the run's folder.
FOLDER = "probes"


@dataclass
class _Probes:
    """The probes of one search, in their order."""

    inp: Input
    ctx: Context
    folder: Path
    endpoint: Endpoint
    arrivals: MaxRate
    slo: SloSpec
    hardware: dict[str, Any]
    #: None of a probe whose load did not come about.
    outputs: list[Output | None] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    def order(self, turn: Try, left_s: float) -> Input:
        """The probe as a load of its own; each draws arrivals of its own."""
        load = self.inp.job.traffic
        probe = load.model_copy(
            update={
                "arrivals": self.arrivals.probe(turn.rate_rps),
                "duration_s": turn.duration_s,
                "seed": (load.seed + len(self.rows)) % 2**63,
                "wait_for_quiet_s": max(0.0, min(load.wait_for_quiet_s, left_s)),
                # What the client can send is looked at here, before the probe.
                "allow_unsafe_load": True,
            }
        )
        return self.inp.model_copy(update={"job": self.inp.job.model_copy(update={"load": probe})})

    def limit_rps(self, order: Input) -> float:
        """The highest rate that this client can send so that it is not itself what is measured."""
        from inferbench_tasks.loadgen.ceiling import SAFE_SHARE, ceiling

        load = order.job.traffic
        plan = plan_of(order, self.ctx, self._folder() / "load", self.endpoint)
        size = one_load.answer_bytes(order.generate.requests, load.samples_per_request)
        most = SAFE_SHARE * ceiling(plan, size, self.ctx.cache_dir("ceilings")).requests_per_s
        if (processing := order.generate.requests.processing) and plan.processing and processing.client_ms:
            busy_s = load.samples_per_request * sum(processing.client_ms.values()) / 1e3
            most = min(most, SAFE_SHARE * plan.shards / busy_s) if busy_s else most
        # The busiest second of a Poisson load lies about this far above its mean.
        return (math.sqrt(6.25 + most) - 2.5) ** 2

    def apply(self, turn: Try, order: Input) -> Finding:
        """One probe, from its load to its finding."""
        from inferbench_tasks.loadgen.objective import judge
        from inferbench_tasks.loadgen.rate_probe import judge_probe, rate_objective
        from inferbench_tasks.loadgen.records import read_samples
        from inferbench_tasks.loadgen.summary import summarise_window
        from inferbench_tasks.loadgen.window import Window

        try:
            output = one_load.apply(order, self.ctx, self._folder(), self.endpoint)
        except LoadError as error:
            life = Life(self.inp.serve.replicas, self.inp.serve.balancer)
            life.look()
            if life.reason:  # whatever was kept before: what the others would answer is another service
                raise
            return self._failed(turn, error)
        window = Window.of(
            read_samples(Path(output.samples_path)), output.measure_start_ns, output.measure_end_ns
        )
        summary = summarise_window(window)
        objective = judge(rate_objective(self.slo), summary, window)
        assert objective is not None
        verdict = _verdict(output, window, self.hardware, order)
        finding, reason = judge_probe(turn.rate_rps, turn.duration_s, verdict, output.certificate, objective)
        self.outputs.append(output)
        self.rows.append(
            {
                "rate_rps": turn.rate_rps,
                "duration_s": window.duration_s,
                "outcome": finding.outcome,
                "reason": reason,
                "verdict": str(verdict),
                "requests": summary["requests"],
                "throughput_rps": summary["throughput_rps"],
                "objective": objective["checks"],
            }
        )
        return finding

    def _failed(self, turn: Try, error: LoadError) -> Finding:
        """A load that did not come about says nothing of its rate; where none does any more, that is the answer."""
        from inferbench_tasks.loadgen.rate_search import REPEATS, Finding

        if len(self.rows) >= REPEATS and all(row["verdict"] is None for row in self.rows[-REPEATS:]):
            raise error
        self.outputs.append(None)
        row = {"rate_rps": turn.rate_rps, "outcome": "unusable", "reason": str(error), "verdict": None}
        self.rows.append(row)
        return Finding(turn.rate_rps, turn.duration_s, "unusable")

    def _folder(self) -> Path:
        return self.folder / FOLDER / f"{len(self.rows):02d}"


def search(inp: Input, ctx: Context, folder: Path, endpoint: Endpoint, arrivals: MaxRate) -> Output:
    """Probe until the answer is as narrow as it was asked for, or the time is up.

    InputError where the time is too short for a single probe, or this client can't send any rate.
    """
    from inferbench_tasks.loadgen.rate_probe import least_requests
    from inferbench_tasks.loadgen.rate_search import LONGEST, RateSearch, doubts
    from inferbench_tasks.monitors import environment

    load, slo = inp.job.traffic, inp.job.slo
    if slo is None:
        raise InputError("max_rate looks for the highest rate that keeps the slo; set one", field="slo")
    probes = _Probes(inp, ctx, folder, endpoint, arrivals, slo, environment.hardware())
    rates = RateSearch(
        arrivals.start_rate_rps,
        arrivals.resolution_ratio,
        load.duration_s,
        lowest_rps=least_requests(slo) / (load.duration_s * LONGEST),
    )
    ends_s = time.monotonic() + arrivals.limit_s
    stopped = None
    while (turn := rates.next()) is not None:
        left_s = ends_s - time.monotonic() - load.warmup_s - turn.duration_s - AROUND_PROBE_S
        if left_s < 0:
            stopped = f"the time for the search was up (load.arrivals.limit_s is {arrivals.limit_s:g})"
            break
        order = probes.order(turn, left_s)
        if not load.allow_unsafe_load and turn.rate_rps > (limit_rps := probes.limit_rps(order)):
            rates.cap(limit_rps)
            if not rates.findings and limit_rps < rates.lowest_rps:
                raise InputError(
                    f"This client can send {limit_rps:,.3g} requests/s, too few for a load of this length to decide",
                    field="load.arrivals",
                )
            continue
        ctx.progress(0, None, f"probe {len(probes.rows) + 1}: {turn.rate_rps:.4g} requests/s")
        rates.tell(probes.apply(turn, order))
    if not probes.rows:
        raise InputError(
            f"{arrivals.limit_s:g} s are too short for one probe of {load.warmup_s + load.duration_s:g} s",
            field="load.arrivals.limit_s",
        )
    at = _standing_for_all(rates, probes.outputs)
    output = probes.outputs[at] if at is not None else None
    if at is None or output is None:
        raise LoadError(f"No probe came about; the last: {probes.rows[-1]['reason']}")
    warnings = [*output.certificate["warnings"], *doubts(rates, stopped)]
    return output.model_copy(
        update={
            "certificate": {**output.certificate, "warnings": warnings},
            "max_rate": _answer(rates, probes, at, stopped),
        }
    )


def _verdict(output: Output, window: Any, hardware: dict[str, Any], order: Input) -> Verdict:
    from inferbench_tasks.metrics.base import Measured
    from inferbench_tasks.metrics.interference import Interference
    from inferbench_tasks.monitors.records import EMPTY, read_recording
    from inferbench_tasks.stages.judgement import judge

    recording = read_recording(Path(output.monitors_path)) if output.monitors_path else EMPTY
    balancer = order.serve.balancer
    measured = Measured(
        window,
        recording,
        {},
        hardware,
        order.job.serve.device,
        balancer_cores=balancer.cores if balancer else (),
    )
    return judge(output.certificate, output.stopped_early, Interference().compute(measured))


def _standing_for_all(rates: RateSearch, outputs: Sequence[Output | None]) -> int | None:
    """The probe that the run's other figures are made from: the highest kept, else the lowest that says anything."""
    findings = rates.findings
    by_outcome: dict[str, list[int]] = {}
    for at, finding in enumerate(findings):
        if outputs[at] is not None:
            by_outcome.setdefault(finding.outcome, []).append(at)
    if kept := by_outcome.get("kept"):
        return max(kept, key=lambda at: findings[at].rate_rps)
    usable = [at for outcome in ("broken", "undecided") for at in by_outcome.get(outcome, ())]
    if usable:
        return min(usable, key=lambda at: findings[at].rate_rps)
    return max(by_outcome.get("unusable", ()), default=None)


def _answer(rates: RateSearch, probes: _Probes, at: int, stopped: str | None) -> dict[str, Any]:
    """The search as plain data; ``at``: the probe that the other figures are of."""
    from inferbench_tasks.loadgen.rate_probe import objective_text

    size = probes.inp.job.traffic.samples_per_request
    kept, broken = rates.kept_rps, rates.broken_rps
    between = [kept, broken] if kept is not None and broken is not None else None
    return {
        "objective": objective_text(probes.slo),
        "rps": kept,
        "samples_per_s": None if kept is None else kept * size,
        "broken_rps": broken,
        "undecided_rps": [rate for rate in rates.undecided_rps if kept is None or rate > kept],
        "interval": {
            "rps": between,
            "samples_per_s": [rate * size for rate in between] if between else None,
        },
        "resolution_ratio": probes.arrivals.resolution_ratio,
        "stopped": stopped,
        "probe": at,
        "probes": probes.rows,
    }


def other_records(folder: Path, answer: dict[str, Any]) -> list[Path]:
    """The raw records of the probes beside the run's own, in their order; ``folder``: the run's."""
    count = len(answer["probes"])
    paths = [folder / FOLDER / f"{at:02d}" / SAMPLES_FILE for at in range(count) if at != answer["probe"]]
    return [path for path in paths if path.exists()]
