"""How long an instance is busy with a batch, from predictions at some batch sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.brick_jobs.under_load.distribution import Distribution
from inferbench_tasks.bricks.measure.method import trimmed_mean
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.queueing.server import Service

#: A normal's 95% interval reaches so many standard deviations up.
_Z = 1.959964
#: Nothing is known of single runs.
ALIKE = Distribution.of([1.0])


@dataclass(frozen=True)
class Services:
    """``ns``: rows -> predicted time of a run, ``interval_ns``: its 95%; ``spread``: single runs over the
    mean."""

    ns: Mapping[int, float]
    interval_ns: Mapping[int, tuple[float, float]]
    spread: Distribution = ALIKE

    def mean_ns(self, rows: int) -> float:
        """On the line between the nearest sizes; ValueError beyond them."""
        sizes = sorted(self.ns)
        if not sizes[0] <= rows <= sizes[-1]:
            raise ValueError(f"{rows} rows; times are predicted of {sizes[0]} to {sizes[-1]}")
        return float(np.interp(rows, sizes, [self.ns[size] for size in sizes]))

    def log_spread(self) -> float:
        """How far the model may be off: the standard deviation of a logarithm, by the widest of the intervals.

        As far up as they reach to their further side: measured ones are as wide down as up, so that lower ends come
        near 0 or below it, where their logarithm says nothing of the time; interpolated ones may reach down alone.
        """
        further = {
            size: max(high - self.ns[size], self.ns[size] - low, 0.0)
            for size, (low, high) in self.interval_ns.items()
        }
        return max(math.log1p(ns / self.ns[size]) / _Z for size, ns in further.items())

    def run_ns(self, rows: int, factor: float, batch_ns: float) -> float:
        """The exact mean of ``service``."""
        return self.mean_ns(rows) * factor * self.spread.mean + batch_ns

    def service(self, factor: float, batch_ns: float) -> Service:
        """With every time ``factor`` times as long, and what the server adds to a batch."""
        known: dict[int, float] = {}

        def service(rows: int, rng: np.random.Generator) -> float:
            if rows not in known:
                known[rows] = self.mean_ns(rows) * factor
            return known[rows] * self.spread.draw(rng) + batch_ns

        return service

    def services(
        self, factor: float, batch_ns: float
    ) -> Callable[[int, NDArray[np.float64]], NDArray[np.float64]]:
        """As ``service``, of many numbers in [0, 1) at once."""
        means = np.array(self.spread.means)

        def services(rows: int, uniform: NDArray[np.float64]) -> NDArray[np.float64]:
            values: NDArray[np.float64] = self.mean_ns(rows) * factor * means[Distribution.parts(uniform)]
            return values + batch_ns

        return services


def sizes_of(rows: int, max_rows: int) -> tuple[int, ...]:
    """The batch sizes at which times are wanted, for requests of ``rows``: 1, 2, 4 ... of them, and the most that fit
    into ``max_rows`` (0: none are joined)."""
    most = max(1, max_rows // rows)
    counts = {1 << at for at in range(most.bit_length()) if 1 << at <= most} | {most}
    return tuple(rows * count for count in sorted(counts))


def spread_of(parts: Iterable[str], results: Mapping[str, Result]) -> Distribution:
    """Single runs of a model over its mean: each brick's runs over their round's trimmed mean, by the brick's share.

    As if a slow run were slow in all bricks: that is wider than the truth, where what slows them is not the same.
    """
    shares: list[tuple[float, tuple[float, ...]]] = []
    for part in parts:
        one = results.get(part)
        rounds = one.raw_ns.get("warm", ()) if one else ()
        ratios = [run / trimmed_mean(runs) for runs in rounds for run in runs]
        if one and ratios:
            shares.append((float(np.mean(one.rounds_ns["warm"])), Distribution.of(ratios).means))
    if not shares:
        return ALIKE
    total = math.fsum(ns for ns, _ in shares)
    weighted = np.average([means for _, means in shares], axis=0, weights=[ns / total for ns, _ in shares])
    return Distribution(tuple(map(float, weighted)))
