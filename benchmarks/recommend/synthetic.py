"""Grids that no machine showed, drawn at random, to tune and to check a search on many. Nothing here is a measurement.

A recorded grid is one machine, one model, one day; a search that was tuned on it alone has learnt it by heart. And one
that was tuned on one kind of drawn grids has learnt their model; so there are three kinds that have little in common:
``formulas`` (a closed form), ``simulated`` (requests in a queue) and ``tabled`` (effects without any meaning).
"""

from __future__ import annotations

import functools
import math
import random
from types import ModuleType
from typing import Any

from benchmarks.recommend import formulas, simulated, tabled
from benchmarks.recommend.recorded import Figures, Recorded
from benchmarks.recommend.space import grid

KINDS: dict[str, ModuleType] = {"formulas": formulas, "simulated": simulated, "tabled": tabled}
#: Spaces of 216, 324 and 640 configurations.
SPACES: dict[str, dict[str, list[Any]]] = {
    "two servers": {
        "server": ["a", "b"], "threads": [1, 2], "instances": [1, 2], "delay_ms": ["off", 0.0, 2.0],
        "batch_size": [1, 4, 8], "concurrency": [1, 4, 16],
    },
    "three servers": {
        "server": ["a", "b", "c"], "threads": [1, 2], "instances": [1, 2], "delay_ms": ["off", 0.0, 2.0],
        "batch_size": [1, 4, 8], "concurrency": [1, 4, 16],
    },
    "many cores": {
        "server": ["a", "b"], "threads": [1, 2, 4, 8], "instances": [1, 2, 4, 8], "delay_ms": ["off", 1.0],
        "batch_size": [1, 2, 4, 8, 16], "concurrency": [1, 8],
    },
}  # fmt: skip
#: Measurements of each configuration to draw from, where answers are noisy.
_REPEATS = 3


@functools.lru_cache(maxsize=64)
def drawn(kind: str, space: str, seed: int) -> Recorded:
    """One grid; the same seed gives the same."""
    rng = random.Random(f"{space} {seed}")
    axes = SPACES[space]
    machine = KINDS[kind].machine(rng, axes)
    points = grid(axes)
    figures = [KINDS[kind].figures(machine, point, rng) for point in points]
    noise = rng.uniform(0.01, 0.05)
    runs = [[_noisy(one, noise, rng) for _ in range(_REPEATS)] for one in figures]
    return Recorded(f"{kind}: {space}, {seed}", points, figures, runs)


def _noisy(figures: Figures, noise: float, rng: random.Random) -> Figures:
    slower = math.exp(rng.gauss(0, noise))
    found: Figures = {}
    for name, value in figures.items():
        own = math.exp(rng.gauss(0, 2 * noise if name == "p99_ms" else 0.3 * noise))
        rate = name in ("throughput_samples_per_s", "throughput_rps")
        found[name] = None if value is None else value * own * (1 / slower if rate else slower)
    return found
