"""The optimiser computes with numbers that are too small for the processor's fast way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.training.diagnosis.base import Cause
from inferbench_tasks.training.diagnosis.observation import Observation, Steps

#: A step with such numbers is by so much longer than one without: less is how both timings scatter.
_LEAST_TIMES = 1.2
#: Fewer of the state are no reason: each takes some hundred cycles at most, where any number takes one.
_LEAST_RATIO = 0.001
#: What the optimiser of the last measured steps took longer than that of the first, at most, of what such numbers cost
#: behind the last epoch, for them to have been there all the time.
_LATER_SHARE = 0.1


def cost_ms(run: Observation) -> float:
    """What the optimiser of a measured step took beyond one that takes such numbers for 0 (the probe
    ``optimiser_flushed_ms``), at most what the state of the last epoch costs by itself. 0 where nothing was probed, and
    where that state has next to none, or is as fast with them.

    A bound, unless they were there ``from_the_start``: while the state came to them there were fewer, and the phase has
    in it what neither probe has (gradients are emptied, caches are cold).
    """
    names = ("denormal_ratio", "optimiser_ms", "optimiser_flushed_ms")
    ratio, state_ms, flushed_ms = (run.probes.get(name) for name in names)
    optimiser = run.phases.get("optimiser")
    if ratio is None or state_ms is None or flushed_ms is None or optimiser is None:
        return 0.0
    if ratio < _LEAST_RATIO or state_ms < _LEAST_TIMES * flushed_ms:
        return 0.0
    return max(0.0, min(optimiser.wall_ms - optimiser.wait_ms, state_ms) - flushed_ms)


def from_the_start(run: Observation) -> bool:
    """Whether the optimiser took as long in the first measured steps of each rank as in its last; no without them."""
    most_ns = _LATER_SHARE * cost_ms(run) * 1e6
    return bool(run.ranks) and all(_later_ns(steps) <= most_ns for steps in run.ranks)


def _later_ns(steps: Steps) -> float:
    times_ns = steps["optimiser_wall_ns"]
    few = max(1, len(times_ns) // 10)
    return float(np.median(times_ns[-few:]) - np.median(times_ns[:few]))


def find(run: Observation) -> Iterator[Cause]:
    """By the optimiser's state behind the last epoch, and a step from it with and without such numbers."""
    cost = cost_ms(run)
    if cost <= 0:
        return
    always, ratio = from_the_start(run), run.probes["denormal_ratio"] or 0.0
    bound = (
        ""
        if always
        else "; such numbers came by and by, or nobody knows since when: what they cost is a bound"
    )
    yield Cause(
        rule="denormals",
        kind="cause",
        sentence=f"Denormal numbers slow the optimiser down: {ratio:.1%} of its state are below the smallest normal "
        "float.",
        evidence=[
            f"a step of the optimiser takes {number(run.phases['optimiser'].wall_ms)} ms; by itself, from the state "
            f"of the last epoch, {number(run.probes['optimiser_ms'])} ms, and "
            f"{number(run.probes['optimiser_flushed_ms'])} where the processor takes such numbers for 0{bound}",
        ],
        remedy="Have the processor take them for 0: they are momentum of weights whose gradients are 0, and no weight "
        "feels them.",
        cost_s=cost / 1e3,
        at_most=not always,
        changes={"train.flush_denormals": True},
        gain_s=cost / 1e3 if always else None,
    )
