"""The table itself, to be read by anybody."""

from __future__ import annotations

import pyarrow as pa

from inferbench_tasks.tracing.spans import SCHEMA


def content(table: pa.Table, about: dict[str, str]) -> bytes:
    """The file; it has no place for what it is about but its columns."""
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table.cast(SCHEMA), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())
