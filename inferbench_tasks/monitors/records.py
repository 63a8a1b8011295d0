"""What the monitors saw, as one Parquet file in long format, and how it is read back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.errors import StorageError

NAMES = pa.dictionary(pa.int16(), pa.string())
#: ``t_ns``: CLOCK_MONOTONIC, as the records of the load. Metrics and units: each monitor's ``metrics``.
SCHEMA = pa.schema(
    [
        pa.field("t_ns", pa.int64(), nullable=False),
        pa.field("source", NAMES, nullable=False),
        pa.field("metric", NAMES, nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
ABOUT = b"inferbench.monitors"
#: How much of a window may be unseen at each of its ends: so long, and no more than that share of it.
_SLACK_NS, _SLACK_RATIO = 1_000_000_000, 0.25
_HOUR_NS = 3_600_000_000_000
#: How much of a window may lie in gaps between samples: a gauge was something else meanwhile, and nobody knows what.
_UNSEEN_RATIO = 0.05


@dataclass(frozen=True)
class Series:
    """One metric over time; ``t_ns`` ascends."""

    t_ns: NDArray[np.int64]
    values: NDArray[Any]

    def within(self, start_ns: int, end_ns: int) -> NDArray[np.float64]:
        """The values that were sampled in [start, end]."""
        return self.values[(self.t_ns >= start_ns) & (self.t_ns <= end_ns)]

    def mean(self, start_ns: int, end_ns: int) -> float | None:
        """The mean over the time from start to end, of which each sample in it stands for what is nearest to it.

        A monitor samples less often the longer it runs (``monitors.base.ROUNDS_PER_RATE``), so the mean of the samples
        would be that of the first hour. None without a sample.
        """
        inside = (self.t_ns >= start_ns) & (self.t_ns <= end_ns)
        if not inside.any():
            return None
        t_ns = self.t_ns[inside].astype(np.float64)
        edges_ns = np.concatenate([[start_ns], (t_ns[1:] + t_ns[:-1]) / 2, [end_ns]])
        return float(np.average(self.values[inside], weights=np.diff(edges_ns)))

    def reaches(self, start_ns: int, end_ns: int) -> bool:
        """Whether samples reach from before the start to the end; 1 s, or a quarter of the time, may lack at each."""
        slack_ns = min(_SLACK_NS, _SLACK_RATIO * (end_ns - start_ns))
        return bool(
            len(self.t_ns) > 1 and self.t_ns[0] <= start_ns + slack_ns and self.t_ns[-1] >= end_ns - slack_ns
        )

    def covers(self, start_ns: int, end_ns: int) -> bool:
        """Whether it tells a gauge's course: it ``reaches``, and gaps of more than 1 s (after the first hour of
        more than the usual ones) make 5% of the time at most.
        """
        if not self.reaches(start_ns, end_ns):
            return False
        gaps_ns = np.diff(np.clip(self.t_ns, start_ns, end_ns)).astype(np.float64)
        slack_ns = np.full(len(gaps_ns), min(_SLACK_NS, _SLACK_RATIO * (end_ns - start_ns)))
        # Hours on the sampler is slower by its own will (``monitors.base.ROUNDS_PER_RATE``), and not away.
        hours = (self.t_ns[1:] - self.t_ns[0]) // _HOUR_NS
        apart_ns = np.diff(self.t_ns)
        usual_ns = float(np.median(apart_ns[hours == 0])) if len(apart_ns) else 0.0
        for hour in np.unique(hours[hours > 0]):
            of = hours == hour
            usual_ns = min(float(np.median(apart_ns[of])), 2 * usual_ns)  # it doubles at most
            slack_ns[of] = np.maximum(slack_ns[of], 1.5 * usual_ns)
        return float((gaps_ns - slack_ns).clip(0).sum()) <= _UNSEEN_RATIO * (end_ns - start_ns)

    def increase(self, start_ns: int, end_ns: int) -> float | None:
        """How much a counter grew between two moments, read between samples by interpolation.

        None unless samples ``reach`` from one to the other, and for a counter that began anew in between.
        """
        if not self.reaches(start_ns, end_ns):
            return None
        inside = self.values[(self.t_ns >= start_ns) & (self.t_ns <= end_ns)]
        # One that began anew falls to about 0; the kernel's own go back by a tick now and then.
        if np.any(inside[1:] < inside[:-1] / 2) or not np.isfinite(inside).all():
            return None
        first, last = np.interp([start_ns, end_ns], self.t_ns, self.values)
        # What lies outside of the samples is not known: scaled to the whole from what was seen.
        seen_ns = min(end_ns, int(self.t_ns[-1])) - max(start_ns, int(self.t_ns[0]))
        return float(last - first) * (end_ns - start_ns) / seen_ns if seen_ns > 0 else None


@dataclass(frozen=True)
class Recording:
    """All that was seen. ``about``: ``unavailable`` {monitor: reason}, ``cpu_cores`` of the sampler, ``problem``."""

    series: dict[tuple[str, str], Series]
    about: dict[str, Any]

    def get(self, source: str, metric: str) -> Series | None:
        """One metric, None if it was not sampled."""
        return self.series.get((source, metric))

    def sources(self) -> list[str]:
        """The names of the sources that have at least one value."""
        return sorted({source for source, _ in self.series})


EMPTY = Recording({}, {})


def convert_spool(spool: Path, path: Path, problem: str | None) -> None:
    """Write the sampler's lines as Parquet; a last line that was cut off is dropped."""
    import pyarrow.parquet as pq

    about: dict[str, Any] = {"unavailable": {}, "cpu_cores": None, "problem": problem}
    t_ns: list[int] = []
    names: list[tuple[str, str]] = []
    values: list[float] = []
    try:
        lines = spool.read_text(encoding="utf-8").split("\n") if spool.exists() else []
        for line in lines[:-1]:
            entry = json.loads(line)
            if isinstance(entry, dict):
                about |= entry
                continue
            at, source, sampled = entry
            for metric, value in sampled.items():
                if value is None:  # no number: JSON has none
                    continue
                t_ns.append(at)
                names.append((source, metric))
                values.append(value)
        table = pa.table(
            {
                "t_ns": pa.array(t_ns, pa.int64()),
                "source": pa.array([n[0] for n in names], pa.string()).dictionary_encode().cast(NAMES),
                "metric": pa.array([n[1] for n in names], pa.string()).dictionary_encode().cast(NAMES),
                "value": pa.array(values, pa.float64()),
            },
            schema=SCHEMA.with_metadata({ABOUT: json.dumps(about)}),
        )
        partial = path.with_name(path.name + ".partial")
        pq.write_table(table, partial, compression="zstd")
        partial.replace(path)
    except OSError as error:
        raise StorageError(f"The monitors' records can't be written to {path}: {error}") from error


def read_recording(path: Path | bytes) -> Recording:
    """The recording in that file (or its content); StorageError if it is none."""
    import pyarrow.parquet as pq

    try:
        # pq.read_table and to_numpy import pandas: half a second for every result
        with pq.ParquetFile(path if isinstance(path, Path) else pa.BufferReader(path)) as file:
            table = file.read()
        t_ns, values = (_numbers(table.column(name)) for name in ("t_ns", "value"))
        sources = np.asarray(table.column("source").cast(pa.string()).to_pylist(), dtype=object)
        metrics = np.asarray(table.column("metric").cast(pa.string()).to_pylist(), dtype=object)
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise StorageError(
            f"{path if isinstance(path, Path) else 'The file'} holds no monitors: {error}"
        ) from error
    series: dict[tuple[str, str], Series] = {}
    for source, metric in dict.fromkeys(zip(sources, metrics, strict=True)):
        rows = np.flatnonzero((sources == source) & (metrics == metric))
        rows = rows[np.argsort(t_ns[rows], kind="stable")]
        series[source, metric] = Series(t_ns[rows], values[rows])
    return Recording(series, json.loads((table.schema.metadata or {}).get(ABOUT, b"{}")))


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    array = column.combine_chunks()
    return array.to_numpy(zero_copy_only=False) if array.null_count else np.from_dlpack(array)
