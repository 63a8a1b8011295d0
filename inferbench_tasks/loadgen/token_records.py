"""The records of streams of tokens, beside those of the requests: two Parquet files, and how they are read back.

``streams.parquet`` has a row for each request of which a stream came, whole or not; ``chunks.parquet`` one for each
event of it, as cheaply as they compress. Moments are CLOCK_MONOTONIC ns; -1 is what did not happen or nobody told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.contracts.columns import numbers
from inferbench_tasks.errors import StorageError

#: How the tokens of a first chunk are known: not at all; by the server's count; by its share of the text's bytes.
FIRST_BY = ("unknown", "usage", "text")

STREAMS = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in {
            "request_id": pa.int64(),
            #: Events with tokens, and the reads that brought them.
            "chunks": pa.int32(),
            "reads": pa.int32(),
            #: By the server's usage.
            "prompt_tokens": pa.int32(),
            "cached_tokens": pa.int32(),
            "output_tokens": pa.int32(),
            "first_chunk_tokens": pa.int32(),
            "first_chunk_by": pa.int8(),
            "first_token_ns": pa.int64(),
            #: The first that is not reasoning.
            "first_output_ns": pa.int64(),
            "last_token_ns": pa.int64(),
        }.items()
    ]
)
#: As they are written: of which conversation it is (the number of its first turn's request), and which turn, from 0.
#: What is by itself is the only turn of its own. And the tokens of the answer's text by a tokenizer of ours, -1 where
#: there is none, or not all of the answer is text. Files of earlier versions lack some.
_LATER = {"session": pa.int64(), "turn": pa.int32(), "text_tokens": pa.int32()}
#: The server's own word on each request (``openai_form.ServerTimes``), -1 where it does not tell.
SERVER_TIMES = (
    "queue_us", "prompt_us", "prompt_tokens", "cached_tokens", "predicted_us", "predicted_tokens", "later_tokens",
)  # fmt: skip
_LATER |= {f"server_{name}": pa.int64() for name in SERVER_TIMES}
STREAMS_WRITTEN = pa.schema(
    [*STREAMS, *(pa.field(name, kind, nullable=False) for name, kind in _LATER.items())]
)
#: What figures are made of.
STREAMS_JUDGED = pa.schema([*STREAMS, STREAMS_WRITTEN.field("text_tokens")])
CHUNKS = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in {
            "request_id": pa.int64(),
            "arrival_ns": pa.int64(),
            #: Of its text, UTF-8.
            "bytes": pa.int32(),
            #: A number of ``openai_form.KINDS``.
            "kind": pa.int8(),
            #: From its arrival in the kernel to its read; -1 where the arrival is the read's own moment.
            "waited_us": pa.int32(),
        }.items()
    ]
)
_ROW_GROUP = 1 << 16


class TableWriter:
    """Streams rows of a schema into one file, which appears under its name when it is complete."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        self._schema = schema
        self._held: list[tuple[NDArray[Any], ...]] = []
        self._rows = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self._partial,
                self._schema,
                compression="zstd",
                use_dictionary=False,
                column_encoding={
                    field.name: "PLAIN" if field.type == pa.int8() else "DELTA_BINARY_PACKED"
                    for field in schema
                },
            )
        except OSError as error:
            raise StorageError(f"The records can't be written to {path}: {error}") from error

    def add(self, *columns: NDArray[Any]) -> None:
        """Add rows: an array for each column."""
        self._held.append(columns)
        self._rows += len(columns[0])
        if self._rows >= _ROW_GROUP:
            self._flush()

    def tell(self, metadata: Mapping[str, str]) -> None:
        """Store words about the whole file in it."""
        self._writer.add_key_value_metadata(dict(metadata))

    def _flush(self) -> None:
        if not self._rows:
            return
        arrays = []
        for index, field in enumerate(self._schema):
            values = np.concatenate([columns[index] for columns in self._held])
            arrays.append(numbers(values.astype(field.type.to_pandas_dtype(), copy=False)))
        self._held, self._rows = [], 0
        try:
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        except OSError as error:
            raise StorageError(f"The records can't be written to {self._path}: {error}") from error

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
        if kind is None:
            self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)


def read_table(path: Path, schema: pa.Schema) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """The columns of such a file as arrays, and its metadata; StorageError where it is none."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if missing := [name for name in schema.names if name not in names]:
                raise StorageError(f"{path} holds no records of streams: no column {', '.join(missing)}")
            pieces = {name: file.read([name]).column(0).combine_chunks() for name in schema.names}
            metadata = file.metadata.metadata or {}
    except (OSError, pa.ArrowInvalid) as error:
        raise StorageError(f"{path} can't be read as records of streams: {error}") from error
    arrays = {
        name: np.from_dlpack(piece) if len(piece) else np.empty(0, np.int64) for name, piece in pieces.items()
    }
    return arrays, {key.decode(): value.decode() for key, value in metadata.items() if key != b"ARROW:schema"}
