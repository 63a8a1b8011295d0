"""Records on their way from a sender to the Parquet file: cheap to add, and safe when the sender dies.

A sender must not spend its loop's time on compression, so a shard appends rows of fixed width to a file
of its own; after the load the shards' files are merged into one Parquet file, a row group at a time.
What was flushed survives even a SIGKILL of the sender.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.errors import StorageError
from inferbench_tasks.loadgen.records import OK, PHASES, SPANS, SamplesWriter

#: One row; ``shard`` stands in the header. Little-endian, packed.
_ROW = np.dtype(
    [
        ("request_id", "<i8"), ("phase", "i1"), ("intended_ns", "<i8"), ("sent_ns", "<i8"),
        ("first_byte_ns", "<i8"), ("done_ns", "<i8"), ("status", "<i2"), ("bytes_sent", "<i8"),
        ("bytes_received", "<i8"), ("sample_index", "<i4"), ("batch_size", "<i2"),
    ]
)  # fmt: skip
_ROW_WITH_SPANS = np.dtype([*_ROW.descr, *((name, "<i8") for name in SPANS)])
_PACKER = struct.Struct("<qbqqqqhqqih")
_PACKER_WITH_SPANS = struct.Struct("<qbqqqqhqqihqqqqqq")

_TYPES = {name: _ROW[name].str for name in _ROW.names or () if name != "phase"}

_MAGIC = "inferbench-spool-2"
_HEADER_BYTES = 16_384
_ROW_GROUP = 65_536


class Recorder:
    """Appends the records of one shard to its spool; about 0.3 us each, with bounded memory.

    Not for several threads. ``buffered_rows`` are lost at most if the process is killed; ``flush`` when
    the loop has time, and ``close`` at the end. ``server_spans``: the rows carry the server's own times.
    """

    def __init__(
        self, path: Path, shard: int = 0, *, server_spans: bool = False, buffered_rows: int = 2048
    ) -> None:
        self.path = path
        self.rows = 0
        self._shard = shard
        self._spans = server_spans
        packer = _PACKER_WITH_SPANS if server_spans else _PACKER
        self._pack_into = packer.pack_into
        self._width = packer.size
        self._end = packer.size * buffered_rows
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
    ) -> None:
        """Keep one record. ``phase``: an index into PHASES; ``status``: a number from ``status_code``."""
        position = self._position
        self._pack_into(
            self._buffer, position, request_id, phase, intended_ns, sent_ns, first_byte_ns, done_ns, status,
            bytes_sent, bytes_received, sample_index, batch_size,
        )  # fmt: skip
        self._position = position = position + self._width
        if position == self._end:
            self.flush()

    def append_with_spans(self, *values: int) -> None:
        """As ``append``, with those of SPANS behind; for a recorder made with ``server_spans``."""
        self._pack_into(self._buffer, self._position, *values)
        self._position += self._width
        if self._position == self._end:
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
        header = {"magic": _MAGIC, "shard": self._shard, "spans": self._spans, "statuses": [*self._statuses]}
        data = json.dumps(header).encode()
        if len(data) > _HEADER_BYTES:
            raise ValueError(f"{len(self._statuses)} kinds of status: errors must be recorded by kind")
        os.pwrite(self._file.fileno(), data.ljust(_HEADER_BYTES), 0)


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
        self._dtype = _ROW_WITH_SPANS if self.spans else _ROW
        self.rows = max(0, size - _HEADER_BYTES) // self._dtype.itemsize

    def read(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Rows ``start`` to ``stop`` as a structured array."""
        stop = self.rows if stop is None else stop
        width = self._dtype.itemsize
        return np.fromfile(self.path, self._dtype, stop - start, offset=_HEADER_BYTES + start * width)

    def pieces(self) -> Iterator[NDArray[Any]]:
        """All rows, a row group's worth at a time."""
        for at in range(0, self.rows, _ROW_GROUP):
            yield self.read(at, min(at + _ROW_GROUP, self.rows))

    def intended_ns(self) -> NDArray[np.int64]:
        """That column alone, read piece by piece."""
        parts = [piece["intended_ns"].copy() for piece in self.pieces()]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)


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
    with SamplesWriter(target, spans=any(part.spans for part in parts), metadata=metadata) as writer:
        for at in range(0, len(order), _ROW_GROUP):
            indices = order[at : at + _ROW_GROUP]
            writer.write(_row_group(parts, starts, indices, statuses, measure_window_ns, writer.schema))
    pa.default_memory_pool().release_unused()
    return len(order)


def _row_group(
    parts: Sequence[Spool],
    starts: NDArray[np.int64],
    indices: NDArray[np.int64],
    statuses: list[str],
    window_ns: tuple[int, int] | None,
    schema: pa.Schema,
) -> pa.RecordBatch:
    """The rows at ``indices`` (over all parts), as Arrow."""
    values: dict[str, NDArray[Any]] = {
        name: np.full(len(indices), -1, "i8" if name in SPANS else _TYPES.get(name, "i2"))
        for name in schema.names
    }
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
    arrays = [
        pa.DictionaryArray.from_arrays(_numbers(values[field.name], pa.int16()), pa.array(names[field.name]))
        if field.name in names
        else _numbers(values[field.name], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _numbers(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """The numbers as Arrow, as they lie in memory: ``pa.array`` would import pandas first, for a second of CPU."""
    exact = np.ascontiguousarray(values, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(exact), [None, pa.py_buffer(exact)])
