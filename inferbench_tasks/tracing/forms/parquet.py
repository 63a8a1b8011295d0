"""The table itself, to be read by anybody."""

from __future__ import annotations

import pyarrow as pa

from inferbench_tasks.tracing.spans import SCHEMA, write_table


def content(table: pa.Table, about: dict[str, str]) -> bytes:
    """The file, as small as the stored one and with what monitors saw; what it is about has no place in it."""
    sink = pa.BufferOutputStream()
    write_table(table.cast(SCHEMA), sink, table.schema.metadata)
    return bytes(sink.getvalue().to_pybytes())
