"""How long an instance is busy with a batch, from predictions at some batch sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.bricks.measure.method import trimmed_mean
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.queueing.server import Service

#: A normal's 95% interval reaches so many standard deviations up.
_Z = 1.959964
#: Runs over their rounds' means are kept as so many equally likely values.
_LEVELS = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True)
class Services:
    """``ns``: rows -> predicted time of a run, ``interval_ns``: its 95%; ``spread``: single runs over the mean, as
    equally likely values (one value, 1: nothing is known of single runs)."""

    ns: Mapping[int, float]
    interval_ns: Mapping[int, tuple[float, float]]
    spread: NDArray[np.float64]

    def mean_ns(self, rows: int) -> float:
        """On the line between the nearest sizes; ValueError beyond them."""
        sizes = sorted(self.ns)
        if not sizes[0] <= rows <= sizes[-1]:
            raise ValueError(f"{rows} rows; times are predicted of {sizes[0]} to {sizes[-1]}")
        return float(np.interp(rows, sizes, [self.ns[size] for size in sizes]))

    def log_spread(self) -> float:
        """How far the model may be off: the standard deviation of a logarithm, by the widest of the intervals.

        By their upper ends: intervals are as wide down as up, so that lower ends come near 0 or below it, where their
        logarithm says nothing of the time.
        """
        return max(
            math.log(max(high / self.ns[size], 1.0)) / _Z for size, (_, high) in self.interval_ns.items()
        )

    def run_ns(self, rows: int, factor: float, batch_ns: float) -> float:
        """The exact mean of ``service``."""
        return self.mean_ns(rows) * factor * float(self.spread.mean()) + batch_ns

    def service(self, factor: float, batch_ns: float) -> Service:
        """With every time ``factor`` times as long, and what the server adds to a batch."""
        known: dict[int, float] = {}

        def service(rows: int, rng: np.random.Generator) -> float:
            if rows not in known:
                known[rows] = self.mean_ns(rows) * factor
            return known[rows] * float(self.spread[int(rng.random() * len(self.spread))]) + batch_ns

        return service


def sizes_of(rows: int, max_rows: int) -> tuple[int, ...]:
    """The batch sizes at which times are wanted, for requests of ``rows``: 1, 2, 4 ... of them, and the most that fit
    into ``max_rows`` (0: none are joined)."""
    most = max(1, max_rows // rows)
    counts = {1 << at for at in range(most.bit_length()) if 1 << at <= most} | {most}
    return tuple(rows * count for count in sorted(counts))


def spread_of(parts: Iterable[str], results: Mapping[str, Result]) -> NDArray[np.float64]:
    """Single runs of a model over its mean: each brick's runs over their round's trimmed mean, by the brick's share.

    As if a slow run were slow in all bricks: that is wider than the truth, where what slows them is not the same.
    """
    shares: list[tuple[float, NDArray[np.float64]]] = []
    for part in parts:
        one = results.get(part)
        rounds = one.raw_ns.get("warm", ()) if one else ()
        ratios = [run / trimmed_mean(runs) for runs in rounds for run in runs]
        if one and ratios:
            shares.append((float(np.mean(one.rounds_ns["warm"])), np.quantile(ratios, _LEVELS)))
    if not shares:
        return np.ones(1)
    total = math.fsum(ns for ns, _ in shares)
    weighted: NDArray[np.float64] = np.sum([ns / total * values for ns, values in shares], axis=0)
    return weighted
