"""A recorded grid as a table: a configuration in, the figures that were measured for it out."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.recommend.space import AXES, Point
from inferbench_tasks import figures as table_of

DATA = Path(__file__).parent / "data"
#: CPU of processes that are neither server nor load, above which a row was disturbed, cores.
QUIET_CORES = 0.15
FIGURES = (
    "throughput_samples_per_s",
    "throughput_rps",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "cpu_ms_per_sample",
    "rss_mib",
)
_TEXT, _COUNT, _NUMBER = pa.string(), pa.int32(), pa.float64()
SCHEMA = pa.schema(
    {
        "server": _TEXT, "threads": _COUNT, "instances": _COUNT, "delay_ms": _NUMBER, "batch_size": _COUNT,
        "concurrency": _COUNT, "verdict": _TEXT, "foreign_cores": _NUMBER, "steal_ratio": _NUMBER, "requests": _COUNT,
        "error_ratio": _NUMBER, "duration_s": _NUMBER, **dict.fromkeys(FIGURES, _NUMBER), "server_cpu_cores": _NUMBER,
        "session": _TEXT, "measured_at": _TEXT,
    }
)  # fmt: skip
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


def names(folder: Path = DATA) -> list[str]:
    """The grids that are there."""
    return sorted(path.stem for path in folder.glob("*.parquet"))


def about(path: Path) -> dict[str, str]:
    """The machine and the versions that a file was recorded with; {} without one."""
    found = pq.read_schema(path).metadata if path.exists() else None
    return {key.decode(): value.decode() for key, value in (found or {}).items() if key != b"ARROW:schema"}


def read_rows(path: Path) -> list[dict[str, Any]]:
    """All measurements of a file, with ``delay_ms`` "off" where there was no dynamic batching; [] without one."""
    if not path.exists():
        return []
    table = pq.read_table(path)
    # Recorded grids keep the names that figures had then.
    names = [table_of.FIGURES[name].name if name in table_of.FIGURES else name for name in table.column_names]
    rows: list[dict[str, Any]] = table.rename_columns(names).to_pylist()
    return [{**row, "delay_ms": "off" if row["delay_ms"] is None else row["delay_ms"]} for row in rows]


def append(path: Path, row: dict[str, Any], about: dict[str, str]) -> None:
    """One measurement more; the file is replaced whole. ``about``: machine and versions, kept as its metadata."""
    rows = [*read_rows(path), {name: row[name] for name in SCHEMA.names}]
    told = [{**one, "delay_ms": None if one["delay_ms"] == "off" else one["delay_ms"]} for one in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    table = pa.Table.from_pylist(told, schema=SCHEMA.with_metadata(about))
    pq.write_table(table, partial, compression="zstd")
    partial.replace(path)


def read(name: str, folder: Path = DATA) -> Recorded:
    """A grid. Rows that were judged valid on a quiet machine count; where a configuration has none, the valid ones do,
    and where it has none of those either, all of its rows. Of these, those that know their p99, if any does.
    """
    by_point: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in read_rows(folder / f"{name}.parquet"):
        by_point.setdefault(tuple(row[axis] for axis in AXES), []).append(row)
    points, figures, runs = [], [], []
    for key, rows in by_point.items():
        valid = [row for row in rows if row["verdict"] == "valid"]
        good = [row for row in valid if row["foreign_cores"] <= QUIET_CORES] or valid or rows
        good = [row for row in good if row["p99_ms"] is not None] or good
        told: list[Figures] = [{name: row[name] for name in FIGURES} for row in good]
        points.append(dict(zip(AXES, key, strict=True)))
        figures.append({name: _median([run[name] for run in told]) for name in FIGURES})
        runs.append(told)
    return Recorded(name, points, figures, runs)


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
