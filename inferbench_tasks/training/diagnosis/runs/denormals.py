"""The optimiser computes with numbers that are too small for the processor's fast way."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation


def cost_ms(run: Observation) -> float:
    """What the optimiser of a measured step took beyond one that takes such numbers for 0 (the probe
    ``optimiser_flushed_ms``), at most what the state of the last epoch costs by itself: while it came to it there was
    less. 0 where nothing was probed.
    """
    state_ms, flushed_ms = (run.probes.get(name) for name in ("optimiser_ms", "optimiser_flushed_ms"))
    optimiser = run.phases.get("optimiser")
    if state_ms is None or flushed_ms is None or optimiser is None:
        return 0.0
    return max(0.0, min(optimiser.wall_ms - optimiser.wait_ms, state_ms) - flushed_ms)


def find(run: Observation) -> Iterator[Cause]:
    """By the optimiser's state behind the last epoch, and a step from it with and without such numbers."""
    ratio, cost = run.probes.get("denormal_ratio"), cost_ms(run)
    if ratio is None or cost <= 0:
        return
    yield Cause(
        rule="denormals",
        kind="cause",
        sentence=f"Denormal numbers slow the optimiser down: {ratio:.1%} of its state are below the smallest normal "
        "float.",
        evidence=[
            f"a step of the optimiser takes {number(run.phases['optimiser'].wall_ms)} ms; by itself, from the state "
            f"of the last epoch, {number(run.probes['optimiser_ms'])} ms, and "
            f"{number(run.probes['optimiser_flushed_ms'])} where the processor takes such numbers for 0",
        ],
        remedy="Have the processor take them for 0: they are momentum of weights whose gradients are 0, and no weight "
        "feels them.",
        cost_s=cost / 1e3,
        changes={"train.flush_denormals": True},
        gain_s=cost / 1e3,
    )
