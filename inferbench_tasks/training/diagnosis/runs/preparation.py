"""Preparing batches is slower than what is done with them, and other loader processes would make it faster."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation
from inferbench_tasks.training.diagnosis.runs.memory import stalled_making_ms


def find(run: Observation) -> Iterator[Cause]:
    """The pipeline as it is beside that with the fewest loader processes that are enough, reading taken out of both.

    What reading takes is the rule ``fetch``'s, and what making waits for want of memory ``memory``'s; more processes
    than now are the remedy here, fewer are ``transfer``'s and ``cores``'.
    """
    pipeline, batch = run.pipeline, run.batch
    if pipeline is None or batch is None:
        return
    making_ms = batch.making_ms - max(batch.read_ms, stalled_making_ms(run))
    warm = pipeline.of(making_ms=making_ms, making_cpu_ms=min(batch.cpu_ms, making_ms))
    best, unbounded = warm.best, warm.unbounded
    gain_ms = warm.step_ms - best.step_ms
    if best.workers <= pipeline.workers or gain_ms <= 0:
        return
    whole = pipeline.of(workers=best.workers)
    more = ""
    if unbounded.step_ms < 0.95 * best.step_ms:
        more = (
            f" The {run.cores:g} core(s) bound it to {number(best.step_ms)} ms then; {unbounded.workers} on "
            f"{run.processes * (run.threads + unbounded.workers)} cores would bring {number(unbounded.step_ms)} ms."
        )
    now = f"{pipeline.workers} loader process(es)" if pipeline.workers else "no loader process"
    yield Cause(
        rule="preparation",
        kind="cause",
        sentence=f"Preparing batches holds it up: a batch takes {number(warm.making_ms)} ms to be prepared, what "
        f"follows in a step {number(pipeline.rest_ms)} ms, and each rank has {now}.",
        evidence=[
            f"making a batch: {number(batch.making_ms)} ms, of it reading {number(batch.read_ms)} ms; waits for a "
            "core apart",
            f"the rest of a step: {number(pipeline.rest_ms)} ms; loading as it was: "
            f"{number(run.phases['loading'].wall_ms)} ms "
            f"of {number(run.step_ms)}",
            f"getting a batch of another process: {number(pipeline.hand_over_ms or 0.0)} ms",
        ],
        remedy=f"Give each rank {best.workers} loader process(es), which are enough.{more}",
        cost_s=gain_ms / 1e3,
        changes={"loader.workers": best.workers},
        gain_s=max(0.0, pipeline.step_ms - whole.step_ms) / 1e3,
    )
