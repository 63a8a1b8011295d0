"""How often a 95% interval holds the true percentile, and how often there is none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.statistics.processes import Process, true_percentiles
from inferbench_tasks.loadgen.statistics import FLOORS, NAMES, intervals

LENGTHS = (5_000, 15_000, 50_000)
#: What coverage counts as 95%.
LEAST, MOST = 0.92, 0.98
#: Fewer intervals than this say nothing about how often they hold.
ENOUGH = 50


@dataclass(frozen=True)
class Cell:
    """Of so many runs of one process and length, for one percentile: intervals, and those that hold the truth."""

    runs: int
    intervals: int
    hits: int

    @property
    def coverage(self) -> float | None:
        """The share of the intervals that hold the true percentile; None without any."""
        return self.hits / self.intervals if self.intervals else None

    @property
    def null_ratio(self) -> float:
        """The share of the runs without an interval."""
        return 1 - self.intervals / self.runs

    @property
    def verdict(self) -> str:
        """``ok``, ``low``, ``high``, ``few`` where there are too few intervals to tell, ``null`` where there are none.

        Beyond the bounds by less than two standard errors of the simulation is ``ok``, marked with ``~``.
        """
        if self.coverage is None:
            return "null"
        if self.intervals < ENOUGH:
            return "few"
        error = 2 * (0.95 * 0.05 / self.intervals) ** 0.5
        if LEAST <= self.coverage <= MOST:
            return "ok"
        if LEAST - error <= self.coverage <= MOST + error:
            return "~"
        return "low" if self.coverage < LEAST else "high"

    def __str__(self) -> str:
        if self.coverage is None:
            return "no interval"
        mark = {"ok": " ", "~": "~", "few": "?"}.get(self.verdict, "!")
        return f"{self.coverage:5.1%}{mark}" + (
            f" ({self.null_ratio:.0%})" if self.null_ratio >= 0.005 else ""
        )


def cover(process: Process, n: int, runs: int, truth_values: int = 4_000_000) -> dict[str, Cell]:
    """A cell per percentile, from ``runs`` runs of ``n`` requests."""
    truth = dict(zip(NAMES.values(), true_percentiles(process, n, tuple(FLOORS), truth_values), strict=True))
    bounds = [intervals(process(np.random.default_rng([0, n, run]), n)).bounds for run in range(runs)]
    cells = {}
    for name, value in truth.items():
        pairs = [pair for row in bounds if (pair := row[name]) is not None]
        cells[name] = Cell(runs, len(pairs), sum(low <= value <= high for low, high in pairs))
    return cells
