"""Ranks and their loader processes have more to do than the granted cores can, or get into each other's way on them."""

from __future__ import annotations

import math
from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import LEAST_SHARE, Cause
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.diagnosis.pipeline import Pipeline

#: From this share of their time on that the work itself needs, the cores have no room left.
_BUSY = 0.9


def find(run: Observation) -> Iterator[Cause]:
    """The best step on these cores beside that with a core for each process; then waits that fewer processes avoid.

    Threads that are more than the cores are the rule ``threads``'.
    """
    pipeline = run.pipeline or _without_loader(run)
    count = run.processes * (run.threads + run.workers)
    if run.processes * run.threads > run.cores and run.threads > 1:
        return
    best, unbounded = pipeline.best, pipeline.unbounded
    missing_ms = best.step_ms - unbounded.step_ms
    need = run.processes * (run.threads + unbounded.workers)
    evidence = [
        f"{run.processes} rank(s) with {run.threads} thread(s) and {run.workers} loader process(es) each: {count} on "
        f"{run.cores:g} granted core(s)",
        f"a step is {number(pipeline.work_ms)} ms of CPU time, so that {run.cores:g} core(s) need "
        f"{number(pipeline.work_ms / run.cores)} ms at least",
        *_waits(run),
    ]
    if need > run.cores and missing_ms >= LEAST_SHARE * run.step_ms:
        yield Cause(
            rule="cores",
            kind="cause",
            sentence=f"The {run.cores:g} granted core(s) hold it up: {_least(best)} on them, {need} cores would bring "
            f"{number(unbounded.step_ms)} ms.",
            evidence=evidence,
            remedy=f"Ask for {need} cores: one for each thread of a rank"
            + (f" and each of {unbounded.workers} loader process(es) of it" if unbounded.workers else "")
            + " (affinity, cgroup, SLURM's --cpus-per-task).",
            cost_s=missing_ms / 1e3,
            gain_s=missing_ms / 1e3,
        )
    elif run.workers and count > run.cores:
        yield from _too_many(run, pipeline, evidence)


def _least(best: Pipeline) -> str:
    """Where nobody knows what handing over a batch takes, no other number of loader processes was looked at."""
    if best.hand_over_ms is None:
        return f"a step takes {number(best.step_ms)} ms"
    return f"no number of loader processes brings a step below {number(best.step_ms)} ms"


def _too_many(run: Observation, pipeline: Pipeline, evidence: list[str]) -> Iterator[Cause]:
    """More loader processes than are of use, while the ranks wait for a core behind them.

    Where fewer of them bring next to nothing, more cores are the remedy.
    """
    best = pipeline.best
    if best.workers >= run.workers:
        return
    waits_ms, gain_ms = run.rest_wait_ms, _fewer_gain_ms(run, pipeline, best)
    remedy, enough = (
        f"Give each rank {best.workers} loader process(es).",
        f", and {best.workers} would be enough",
    )
    helps = gain_ms >= LEAST_SHARE * run.step_ms
    if not helps:
        count = run.processes * (run.threads + run.workers)
        enough = ""
        remedy = (
            f"Ask for up to {count} cores, one for each process: {best.workers} loader process(es) for each rank bring "
            f"{number(gain_ms)} ms alone."
        )
    yield Cause(
        rule="cores",
        kind="cause",
        sentence=f"{run.workers} loader processes for each rank are more than the {run.cores:g} granted core(s) have "
        f"room for: the ranks wait {number(waits_ms)} ms of each step for a core{enough}.",
        evidence=evidence,
        remedy=remedy,
        cost_s=waits_ms / 1e3,
        changes={"loader.workers": best.workers} if helps else {},
        # How much of the waits more cores end was not measured.
        gain_s=gain_ms / 1e3 if helps else None,
    )


def _fewer_gain_ms(run: Observation, pipeline: Pipeline, best: Pipeline) -> float:
    """Fewer loader processes end the ranks' waits for a core; without any the ranks make their batches themselves.

    Of several ranks that keep all cores busy by themselves the waits stay: their threads that exchange gradients take
    turns with them as before (two ranks on two cores waited 76 ms of 570 beside 12 such processes, 50 of 563 without).
    What is gained then is what the pipeline gains.
    """
    if run.processes > 1 and best.work_ms >= _BUSY * run.cores * best.step_ms:
        return max(0.0, pipeline.step_ms - best.step_ms)
    return run.rest_wait_ms if best.workers else max(0.0, run.step_ms - best.step_ms)


def _without_loader(run: Observation) -> Pipeline:
    """The step of a run that makes no batches."""
    rest_ms = max(run.step_ms - run.rest_wait_ms, 1e-6)
    cpu_ms = min(sum(phase.cpu_ms for phase in run.phases.values()), rest_ms * run.threads)
    return Pipeline(run.processes, run.cores or math.inf, 0, 0.0, 0.0, rest_ms, cpu_ms)


def _waits(run: Observation) -> list[str]:
    waited = {
        name: phase.wait_ms for name, phase in run.phases.items() if phase.wait_ms >= 0.01 * run.step_ms
    }
    texts = []
    if waited:
        parts = ", ".join(f"{name.replace('_', ' ')} {number(wait_ms)}" for name, wait_ms in waited.items())
        texts.append(f"a rank's waits for a core in a step, ms: {parts}")
    if run.batch and run.workers and run.batch.wait_ms:
        texts.append(f"a loader process's waits for a core for each batch: {number(run.batch.wait_ms)} ms")
    return texts
