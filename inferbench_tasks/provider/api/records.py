"""Raw records as a file: the stored Parquet, or its rows as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import Attachment
from inferbench_tasks.provider.api.output import wants_csv
from inferbench_tasks.spreadsheet import harmless_table

#: At a time: what is sent is never in memory as a whole.
ROWS_AT_ONCE, BYTES_AT_ONCE = 5_000, 1 << 20


def records(request: Request, format: str | None, db: PerfDB, stored: Attachment, name: str) -> Response:
    """A stored Parquet file under a name without its ending, piece by piece; as CSV if that is asked for."""
    # Checked against its SHA-256 before the first byte is sent: an answer that has begun can't become an error.
    file = db.files.spooled(stored)
    if wants_csv(request, format):
        headers = attachment(f"{name}.csv")
        return StreamingResponse(csv_lines(file), media_type="text/csv; charset=utf-8", headers=headers)
    headers = {**attachment(f"{name}.parquet"), "Content-Length": str(stored.bytes)}
    return StreamingResponse(blocks(file), media_type="application/vnd.apache.parquet", headers=headers)


def csv_lines(file: IO[bytes]) -> Iterator[str]:
    """The rows of a Parquet file as CSV, a few thousand at a time, its header first; closes the file.

    A whole number stays one beside missing values, which are empty; a text that a spreadsheet would run has a quote
    before it.
    """
    import pyarrow.parquet

    with file, pyarrow.parquet.ParquetFile(file, buffer_size=BYTES_AT_ONCE, pre_buffer=False) as table:
        yield harmless_table(table.schema_arrow.empty_table().to_pandas()).to_csv(index=False)
        for batch in table.iter_batches(batch_size=ROWS_AT_ONCE):
            rows = harmless_table(batch.to_pandas(integer_object_nulls=True))
            yield rows.to_csv(index=False, header=False)


def blocks(file: IO[bytes]) -> Iterator[bytes]:
    """The bytes of a file in pieces; closes it."""
    with file:
        while block := file.read(BYTES_AT_ONCE):
            yield block


def attachment(name: str) -> dict[str, str]:
    """The header by which a browser keeps an answer as a file of that name."""
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
    return {"Content-Disposition": f'attachment; filename="{safe}"'}
