"""Records on their way from a sender to the Parquet file: cheap to add, and safe when the sender dies.

A sender must not spend its loop's time on compression, so a shard appends rows of fixed width to a file
of its own; after the load the shards' files are merged into one Parquet file (``loadgen.merging``).
What was flushed survives even a SIGKILL of the sender.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.errors import StorageError
from inferbench_tasks.loadgen.layout import OK, columns_of, row_dtype, row_packer, span_packer

_ROW, _SPANS = row_packer(), span_packer()
_NO_SPANS = (-1,) * sum(bool(column.side) for column in columns_of(spans=True))

_MAGIC = "inferbench-spool-2"
_HEADER_BYTES = 16_384
#: Rows that are read at once.
ROW_GROUP = 65_536


class Recorder:
    """Appends the records of one shard to its spool; about 0.3 us each, with bounded memory.

    Not for several threads. ``buffered_rows`` are lost at most if the process is killed; ``flush`` when
    the loop has time, and ``close`` at the end. ``spans``: the rows carry
    the times of the parts of a request too.
    """

    def __init__(self, path: Path, shard: int = 0, *, spans: bool = False, buffered_rows: int = 2048) -> None:
        self.path = path
        self.rows = 0
        self._shard = shard
        self._spans = spans
        self._pack_into = _ROW.pack_into
        self._pack_spans_into = _SPANS.pack_into
        self._width = row_dtype(spans=spans).itemsize
        self._end = self._width * buffered_rows
        self._buffer = bytearray(self._end)
        self._position = 0
        self._statuses = {OK: 0}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - lives as long as the recorder
        except OSError as error:
            raise StorageError(f"The records of shard {shard} can't be written to {path}: {error}") from error
        self._write_header()
        self._file.seek(_HEADER_BYTES)

    def status_code(self, status: str) -> int:
        """The number under which ``append`` takes a status; the same name has the same number."""
        code = self._statuses.get(status)
        if code is None:
            code = self._statuses[status] = len(self._statuses)
            self._write_header()
        return code

    def append(
        self,
        request_id: int,
        phase: int,
        intended_ns: int,
        sent_ns: int,
        first_byte_ns: int,
        done_ns: int,
        status: int,
        bytes_sent: int,
        bytes_received: int,
        sample_index: int,
        batch_size: int,
        spans: Sequence[int] | None = None,
    ) -> None:
        """Keep one record, its values in the order of ``layout``.

        ``phase``: an index into PHASES; ``status``: a number from ``status_code``. ``spans``: the server's, then the
        client's; a recorder without spans leaves them out.
        """
        position = self._position
        self._pack_into(
            self._buffer, position, request_id, phase, intended_ns, sent_ns, first_byte_ns, done_ns, status,
            bytes_sent, bytes_received, sample_index, batch_size,
        )  # fmt: skip
        if self._spans:
            self._pack_spans_into(self._buffer, position + _ROW.size, *(spans or _NO_SPANS))
        self._position = position = position + self._width
        if position == self._end:
            self.flush()

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        if not self._position:
            return
        view = memoryview(self._buffer)[: self._position]
        self.rows += self._position // self._width
        self._position = 0
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise StorageError(f"The records can't be written to {self.path}: {error}") from error

    def close(self) -> None:
        """Flush and close; harmless when closed."""
        if not self._file.closed:
            self.flush()
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_header(self) -> None:
        os.pwrite(self._file.fileno(), _header(self._shard, self._spans, [*self._statuses]), 0)


def _header(shard: int, spans: bool, statuses: Sequence[str]) -> bytes:
    header = {"magic": _MAGIC, "shard": shard, "spans": spans, "statuses": [*statuses]}
    data = json.dumps(header).encode()
    if len(data) > _HEADER_BYTES:
        raise ValueError(f"{len(statuses)} kinds of status: errors must be recorded by kind")
    return data.ljust(_HEADER_BYTES)


class Spool:
    """A shard's file, to be read; a row that was cut off by a crash is left out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as file:
                header = json.loads(file.read(_HEADER_BYTES))
            size = path.stat().st_size
        except (OSError, ValueError) as error:
            raise StorageError(f"{path} can't be read as the records of a shard: {error}") from error
        if not isinstance(header, dict) or header.get("magic") != _MAGIC:
            raise StorageError(f"{path} holds no records of a shard")
        self.shard: int = header["shard"]
        self.spans: bool = header["spans"]
        self.statuses: list[str] = header["statuses"]
        self._dtype = row_dtype(spans=self.spans)
        self.rows = max(0, size - _HEADER_BYTES) // self._dtype.itemsize

    def read(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Rows ``start`` to ``stop`` as a structured array."""
        stop = self.rows if stop is None else stop
        width = self._dtype.itemsize
        return np.fromfile(self.path, self._dtype, stop - start, offset=_HEADER_BYTES + start * width)

    def rows_in_place(self) -> np.memmap[Any, np.dtype[Any]]:
        """All rows as they lie in the file: what is written to them is written there."""
        return np.memmap(self.path, self._dtype, "r+", offset=_HEADER_BYTES, shape=(self.rows,))

    def add_statuses(self, names: Iterable[str]) -> None:
        """Give further names their numbers, behind those that the sender knew."""
        self.statuses += [name for name in names if name not in self.statuses]
        with open(self.path, "r+b") as file:
            file.write(_header(self.shard, self.spans, self.statuses))

    def pieces(self) -> Iterator[NDArray[Any]]:
        """All rows, a row group's worth at a time."""
        for at in range(0, self.rows, ROW_GROUP):
            yield self.read(at, min(at + ROW_GROUP, self.rows))

    def intended_ns(self) -> NDArray[np.int64]:
        """That column alone, read piece by piece."""
        parts = [piece["intended_ns"].copy() for piece in self.pieces()]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)
