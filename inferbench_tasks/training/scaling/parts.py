"""What a step is made of, so that steps of different numbers of ranks can be set beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferbench_tasks.training.diagnosis.observation import Steps
from inferbench_tasks.training.diagnosis.thread_times import (
    TOGETHER,
    blocked_ns,
    held_ns,
    shared_ns,
    statistics_timed,
    waited_ns,
    waits_told,
)
from inferbench_tasks.training.exchange import Exchange


@dataclass(frozen=True)
class Parts:
    """Means over ranks and steps, ms, that add up to the step.

    ``exchange_ms``: in backward blocked, in each step that of the rank which was blocked least, and likewise in
    gathering answers, and in the exchange of running statistics where that was timed; ``imbalance_ms``: what the ranks
    were blocked there beyond it, waiting for the last one; ``loading_ms``: without waits for a core; ``cores_ms``:
    those waits, of the thread that runs the step; ``computing_ms``: all the rest.
    """

    computing_ms: float
    loading_ms: float
    exchange_ms: float
    imbalance_ms: float
    cores_ms: float

    NAMES = ("computing", "loading", "exchange", "imbalance", "cores")

    @property
    def step_ms(self) -> float:
        """Their sum."""
        return sum(self.of(name) for name in self.NAMES)

    def of(self, name: str) -> float:
        """One of them by its name without the unit."""
        value: float = getattr(self, f"{name}_ms")
        return value


def parts_of(ranks: Sequence[Steps]) -> Parts | None:
    """Of the raw steps of all ranks; None without any, and where the kernel told no waits for a core: what was blocked
    would have them in it.
    """
    if not ranks or any("step_ns" not in steps or not waits_told(steps) for steps in ranks):
        return None
    count = min(len(steps["step_ns"]) for steps in ranks)
    if not count:
        return None

    def mean_ms(of: list[np.ndarray]) -> float:
        return float(np.mean([values[:count] for values in of])) / 1e6

    step_ms = mean_ms([steps["step_ns"] for steps in ranks])
    phases = [name.removesuffix("_wall_ns") for name in ranks[0] if name.endswith("_wall_ns")]
    cores_ms = sum(mean_ms([waited_ns(steps, phase) for steps in ranks]) for phase in phases)
    loading_ms = mean_ms([held_ns(steps, "loading") for steps in ranks]) if "loading" in phases else 0.0
    exchanges = [[blocked_ns(steps, phase) for steps in ranks] for phase in TOGETHER if phase in phases]
    if all(statistics_timed(steps) for steps in ranks):
        # What of them waited for a core is none of forward's, whose time theirs is taken off.
        cores_ms += mean_ms([steps[Exchange.statistics[2]] for steps in ranks])
        exchanges.append([shared_ns(steps) for steps in ranks])
    exchange_ms = imbalance_ms = 0.0
    for of_ranks in exchanges if len(ranks) > 1 else ():
        blocked = np.array([values[:count] for values in of_ranks]) / 1e6
        exchange_ms += float(blocked.min(axis=0).mean())
        imbalance_ms += float((blocked - blocked.min(axis=0)).mean())
    computing_ms = step_ms - cores_ms - loading_ms - exchange_ms - imbalance_ms
    return Parts(computing_ms, loading_ms, exchange_ms, imbalance_ms, cores_ms)
