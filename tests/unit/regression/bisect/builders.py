"""Bisections whose runs are drawn, not measured."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from inferbench_tasks.regression.bisect.state import BisectRun, BisectState, Comparison, SideName, Task
from inferbench_tasks.regression.bisect.walk import next_comparison

#: The place of a step -> what its figure is multiplied by.
Level = Callable[[int], float]


def begun(steps: int, **task: object) -> BisectState:
    """A bisection of so many steps after the good end, with nothing measured."""
    names = [f"c{place}" for place in range(steps + 1)]
    return BisectState(
        task=Task.model_validate({"name": "quick", "what": "0", "figure": "p50_ms", "steps": names, **task})
    )


def add_block(state: BisectState, comparison: Comparison, level: Level, rng: np.random.Generator) -> None:
    """Measure one more block of pairs: 10 ms with 1% of noise; what a level adds is inference."""
    places: dict[SideName, int] = {"baseline": comparison.baseline, "candidate": comparison.candidate}
    for _ in range(state.task.block):
        for side, place in places.items():
            figure = 10 * level(place) * float(np.exp(rng.normal(0, 0.01)))
            stages = {
                "queue": float(rng.normal(1, 0.01)),
                "inference": figure - 3,
                "transmit": float(rng.normal(2, 0.01)),
            }
            run = BisectRun(
                run_id=f"{side}-{place}", side=side, verdict="valid", figure=figure, stages_ms=stages
            )
            comparison.runs.append(run)


def open_comparison(state: BisectState) -> Comparison:
    return next(comparison for comparison in state.comparisons if comparison.decision is None)


def finished(
    state: BisectState, level: Level, *, seed: int = 1, unbuildable: tuple[int, ...] = ()
) -> BisectState:
    """Go on until nothing is left to measure; ``unbuildable`` steps are skipped when they are asked for."""
    rng = np.random.default_rng(seed)
    while following := next_comparison(state):
        comparison = open_comparison(state)
        if following.candidate in unbuildable:
            state.skipped[following.candidate] = "does not build"
            state.comparisons.remove(comparison)
        else:
            add_block(state, comparison, level, rng)
    return state


def slower_from(culprit: int, by: float = 0.03) -> Level:
    return lambda place: 1 + by if place >= culprit else 1.0
