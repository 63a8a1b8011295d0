"""Records of a load that a test makes up, as a table and as the file that a run leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from inferbench_tasks.loadgen.layout import OK
from inferbench_tasks.loadgen.records import SCHEMA, SCHEMA_WITH_SPANS, SPANS, SamplesWriter

_LEFT_OUT: dict[str, Any] = {
    "shard": 0, "phase": "measure", "status": OK, "bytes_sent": 0, "bytes_received": 0, "sample_index": 0,
    "batch_size": 1,
}  # fmt: skip


def samples_table(columns: Mapping[str, ArrayLike | Sequence[str]]) -> pa.Table:
    """Records from columns; those left out get a default (``request_id``: 0, 1, 2 ...).

    ``intended_ns`` is needed; ``sent_ns`` is taken from it unless given. Spans come in if one is given.
    """
    schema = SCHEMA if SPANS.isdisjoint(columns) else SCHEMA_WITH_SPANS
    if unknown := set(columns) - set(schema.names):
        raise ValueError(f"unknown columns {sorted(unknown)}; known: {', '.join(SCHEMA_WITH_SPANS.names)}")
    rows = len(np.asarray(columns["intended_ns"]))
    arrays = []
    for field in schema:
        values: Any = columns.get(field.name)
        if values is None and field.name == "request_id":
            values = np.arange(rows)
        elif values is None and field.name == "sent_ns":
            values = columns["intended_ns"]
        if values is None:
            values = [_LEFT_OUT.get(field.name, -1)] * rows
        if pa.types.is_dictionary(field.type):
            arrays.append(pa.array(list(values), pa.string()).dictionary_encode().cast(field.type))
        else:
            arrays.append(pa.array(np.asarray(values), field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def write_table(table: pa.Table, path: Path) -> None:
    """Write records that are already in memory; the file appears whole or not at all."""
    with SamplesWriter(path, spans=not SPANS.isdisjoint(table.column_names)) as writer:
        writer.write(table)
