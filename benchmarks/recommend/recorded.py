"""A recorded grid as a table: a configuration in, the figures that were measured for it out."""

from __future__ import annotations

import csv
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.recommend.space import AXES, Point

DATA = Path(__file__).parent / "data"
#: CPU of processes that are neither server nor load, above which a row was disturbed, cores.
QUIET_CORES = 0.15
FIGURES = (
    "samples_per_s",
    "throughput_rps",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "cpu_ms_per_sample",
    "rss_mib",
)
Figures = dict[str, float | None]


@dataclass(frozen=True)
class Recorded:
    """``points[i]`` showed ``figures[i]``: the median over its good rows. ``runs[i]``: each good row's figures."""

    name: str
    points: list[Point]
    figures: list[Figures]
    runs: list[list[Figures]]

    def spread(self, figure: str) -> float | None:
        """The typical relative standard deviation between two measurements of the same configuration."""
        found = []
        for runs in self.runs:
            values = [v for run in runs if (v := run[figure]) is not None]
            if len(values) > 1:
                found.append(statistics.stdev(values) / statistics.mean(values))
        return statistics.median(found) if found else None


def names() -> list[str]:
    """The grids that are there."""
    return sorted(path.stem for path in DATA.glob("*.csv"))


def read(name: str) -> Recorded:
    """A grid. Rows that were judged valid on a quiet machine count; where a configuration has none, the valid ones do,
    and where it has none of those either, all of its rows.
    """
    by_point: dict[tuple[str, ...], list[dict[str, str]]] = {}
    with open(DATA / f"{name}.csv", newline="") as file:
        for row in csv.DictReader(file):
            by_point.setdefault(tuple(row[axis] for axis in AXES), []).append(row)
    points, figures, runs = [], [], []
    for key, rows in by_point.items():
        valid = [row for row in rows if row["verdict"] == "valid"]
        good = [row for row in valid if float(row["foreign_cores"]) <= QUIET_CORES] or valid or rows
        told = [{name: float(row[name]) if row[name] else None for name in FIGURES} for row in good]
        points.append({axis: _value(text) for axis, text in zip(AXES, key, strict=True)})
        figures.append({name: _median([run[name] for run in told]) for name in FIGURES})
        runs.append(told)
    return Recorded(name, points, figures, runs)


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _value(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
