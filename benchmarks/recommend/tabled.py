"""Grids of effects that were drawn and mean nothing: no queue, no law, no order of the settings is behind them.

The logarithm of each figure is a sum of one number per setting, one per pair of settings of two axes, and one per
configuration. Effects of numbers run mostly one way but not smoothly; a pair of settings may not work at all (no
figures); in a corner of the space the tail is many times longer (a cliff). A search that knows servers too well
goes wrong here.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

from benchmarks.recommend.recorded import Figures
from benchmarks.recommend.space import Point

#: What is drawn; a throughput in requests follows from throughput_samples_per_s.
_DRAWN = ("throughput_samples_per_s", "mean_ms", "tail", "cpu_ms_per_sample")


def machine(rng: random.Random, axes: dict[str, list[Any]]) -> dict[str, Any]:
    """The tables, the pair that fails and the corner of the cliff."""
    pairs = list(itertools.combinations(axes, 2))
    failing = rng.choice(pairs)
    corner = rng.sample([axis for axis in axes if axis != "server"], 2)
    return {
        "single": {
            (figure, axis): dict(zip(values, _walk(rng, len(values), figure), strict=True))
            for figure in _DRAWN
            for axis, values in axes.items()
        },
        "pair": {
            (figure, pair): {
                both: rng.gauss(0, 0.12) for both in itertools.product(*(axes[axis] for axis in pair))
            }
            for figure in _DRAWN
            for pair in rng.sample(pairs, 6)
        },
        "failing": {axis: rng.choice(axes[axis]) for axis in failing} if rng.random() < 0.5 else None,
        "cliff": {axis: rng.choice([axes[axis][0], axes[axis][-1]]) for axis in corner},
        "cliff_factor": rng.uniform(2, 10),
        "rugged": rng.choice([0.0, 0.02, 0.04]),
    }


def _walk(rng: random.Random, count: int, figure: str) -> list[float]:
    """Mostly one way, by steps of very different size."""
    up = rng.random() < 0.75
    size = 0.15 if figure == "tail" else 0.6
    steps = [rng.expovariate(1 / size) * (1 if (rng.random() < 0.85) == up else -1) for _ in range(count - 1)]
    return list(itertools.accumulate(steps, initial=0.0))


def figures(machine: dict[str, Any], point: Point, rng: random.Random) -> Figures:
    """None of everything where the configuration does not work."""
    failing = machine["failing"]
    drawn: dict[str, float] = {}
    for figure in _DRAWN:
        found = sum(machine["single"][figure, axis][point[axis]] for axis in point)
        for (of, pair), table in machine["pair"].items():
            if of == figure:
                found += table[tuple(point[axis] for axis in pair)]
        drawn[figure] = math.exp(found + rng.gauss(0, machine["rugged"]))
    cliff = machine["cliff_factor"] if all(point[a] == v for a, v in machine["cliff"].items()) else 1.0
    p99_ms = 10 * drawn["mean_ms"] * (1.1 + drawn["tail"]) * cliff
    told: Figures = {
        "throughput_samples_per_s": 300 * drawn["throughput_samples_per_s"],
        "throughput_rps": 300 * drawn["throughput_samples_per_s"] / point["batch_size"],
        "mean_ms": 10 * drawn["mean_ms"],
        "p50_ms": 9 * drawn["mean_ms"],
        "p95_ms": 0.7 * p99_ms,
        "p99_ms": p99_ms,
        "cpu_ms_per_sample": drawn["cpu_ms_per_sample"],
        "rss_mib": 200.0,
    }
    works = failing is None or any(point[axis] != value for axis, value in failing.items())
    return told if works else dict.fromkeys(told)
