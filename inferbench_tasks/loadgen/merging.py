"""The shards' records as one Parquet file, a row group at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.contracts.columns import numbers, texts
from inferbench_tasks.loadgen.layout import OK, PHASES, columns_of
from inferbench_tasks.loadgen.records import SamplesWriter, schema_of
from inferbench_tasks.loadgen.spool import ROW_GROUP, Spool


def merge(
    spools: Iterable[Path],
    target: Path,
    *,
    measure_window_ns: tuple[int, int] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> int:
    """Merge the shards' records into one Parquet file, ordered by ``intended_ns``; returns their number.

    ``measure_window_ns``: the phases are set anew, by where each intended time lies to [start, end); for
    loads whose window is only known afterwards. Memory stays bounded: 16 bytes for each record, and the
    rows of one row group.
    """
    parts = [Spool(path) for path in spools]
    intended = np.concatenate([part.intended_ns() for part in parts] or [np.empty(0, np.int64)])
    order = np.argsort(intended, kind="stable")
    del intended
    starts = np.cumsum([0, *(part.rows for part in parts)])
    statuses = list(dict.fromkeys([OK, *(name for part in parts for name in part.statuses)]))
    spans = any(part.spans for part in parts)
    with SamplesWriter(target, spans=spans, metadata=metadata) as writer:
        for at in range(0, len(order), ROW_GROUP):
            indices = order[at : at + ROW_GROUP]
            writer.write(_row_group(parts, starts, indices, statuses, measure_window_ns, spans=spans))
    pa.default_memory_pool().release_unused()
    return len(order)


def _row_group(
    parts: Sequence[Spool],
    starts: NDArray[np.int64],
    indices: NDArray[np.int64],
    statuses: list[str],
    window_ns: tuple[int, int] | None,
    *,
    spans: bool,
) -> pa.RecordBatch:
    """The rows at ``indices`` (over all parts), as Arrow."""
    columns = columns_of(spans=spans)
    values: dict[str, NDArray[Any]] = {c.name: np.full(len(indices), -1, c.stored) for c in columns}
    for part, start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
        mine = np.flatnonzero((indices >= start) & (indices < stop))
        if not len(mine):
            continue
        local = indices[mine] - start
        low = int(local.min())
        # Completions stray little from the order of the intentions: the stretch to read is short.
        piece = part.read(low, int(local.max()) + 1)
        for name in piece.dtype.names or ():
            values[name][mine] = piece[name][local - low]
        values["status"][mine] = np.array([statuses.index(s) for s in part.statuses])[values["status"][mine]]
        values["shard"][mine] = part.shard
    if window_ns is not None:
        after = (values["intended_ns"] >= window_ns[1]).astype("i2")
        values["phase"] = after + (values["intended_ns"] >= window_ns[0])
    names = {"phase": list(PHASES), "status": statuses}
    exact = {
        column.name: numbers(values[column.name].astype(column.stored, copy=False)) for column in columns
    }
    arrays = [
        pa.DictionaryArray.from_arrays(exact[column.name], texts(names[column.name]))
        if column.names
        else exact[column.name]
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(spans=spans))
