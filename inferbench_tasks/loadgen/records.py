"""The record of every request: the schema, the Parquet file, and how both are read back.

Raw records are the truth of a load; every figure can be derived from them again. While a load runs they
go through ``loadgen.spool``; afterwards they lie in one Parquet file, in the order of ``intended_ns``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from inferbench_tasks.contracts.columns import numbers, texts
from inferbench_tasks.errors import StorageError
from inferbench_tasks.loadgen.layout import OK, Column, columns_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


def schema_of(*, spans: bool) -> pa.Schema:
    """The Arrow schema of the Parquet file."""
    return pa.schema([_field(each) for each in columns_of(spans=spans)])


def _field(of: Column) -> pa.Field:
    kind = pa.from_numpy_dtype(np.dtype(of.stored))
    return pa.field(of.name, pa.dictionary(kind, pa.string()) if of.names else kind, nullable=False)


SCHEMA = schema_of(spans=False)
SCHEMA_WITH_SPANS = schema_of(spans=True)
#: The columns that a file may lack.
SPANS = frozenset(SCHEMA_WITH_SPANS.names) - frozenset(SCHEMA.names)


class SamplesWriter:
    """Streams record batches into one Parquet file; it appears under its name when it is complete."""

    def __init__(self, path: Path, *, spans: bool = False, metadata: Mapping[str, str] | None = None) -> None:
        import pyarrow.parquet as pq

        self.schema = SCHEMA_WITH_SPANS if spans else SCHEMA
        if metadata:
            self.schema = self.schema.with_metadata(dict(metadata))
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        names = [f.name for f in self.schema if pa.types.is_dictionary(f.type)]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self._partial,
                self.schema,
                compression="zstd",
                use_dictionary=names,
                column_encoding={n: "DELTA_BINARY_PACKED" for n in self.schema.names if n not in names},
            )
        except OSError as error:
            raise StorageError(f"The records can't be written to {path}: {error}") from error

    def write(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows as one row group or more."""
        try:
            if isinstance(rows, pa.RecordBatch):
                rows = pa.Table.from_batches([rows])
            self._writer.write_table(rows.select(self.schema.names).cast(self.schema))
        except OSError as error:
            raise StorageError(f"The records can't be written to {self._path}: {error}") from error

    def __enter__(self) -> SamplesWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._writer.close()
        if kind is None:
            self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)


def read_samples(path: Path, columns: Iterable[str] | None = None) -> pa.Table:
    """The records of a load, all columns or some; StorageError if the file holds no records.

    Each column lies in one piece, so that numpy sees it without a copy.
    """
    import pyarrow.parquet as pq

    names = list(columns) if columns is not None else None
    try:
        with pq.ParquetFile(path) as file:  # pq.read_table imports pandas: a second, for nothing
            schema = file.schema_arrow
            fields = [field for field in schema if names is None or field.name in names]
            # One at a time: the pieces of one column and the columns so far, never everything twice.
            columns = [file.read([field.name]).column(0).combine_chunks() for field in fields]
            table = pa.Table.from_arrays(columns, schema=pa.schema(fields, schema.metadata))
        pa.default_memory_pool().release_unused()
    except (OSError, pa.ArrowInvalid) as error:
        raise StorageError(f"{path} can't be read as the records of a load: {error}") from error
    needed = SCHEMA.names if names is None else [name for name in names if name not in SPANS]
    if missing := [name for name in needed if name not in table.column_names]:
        raise StorageError(f"{path} holds no records of a load: no column {', '.join(missing)}")
    return table


def column(table: pa.Table, name: str) -> NDArray[Any]:
    """A number column as a numpy array, without a copy where it lies in one piece."""
    chunked = table.column(name)
    if not chunked.num_chunks:
        return np.empty(0, chunked.type.to_pandas_dtype())
    parts = [_values(chunk) for chunk in chunked.chunks]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def labelled(table: pa.Table, start_ns: int, end_ns: int) -> pa.Table:
    """The records with their phases by another window than the load's own, for a load beside the measured one."""
    intended = column(table, "intended_ns")
    inside = (intended >= start_ns) & (intended < end_ns)
    phases = pa.DictionaryArray.from_arrays(numbers(inside.astype(np.int16)), texts(["warmup", "measure"]))
    return table.set_column(table.schema.get_field_index("phase"), "phase", phases)


def codes(table: pa.Table, name: str) -> tuple[NDArray[Any], list[str]]:
    """A name column (``status``, ``phase``) as codes and the names that they stand for."""
    unified = table.column(name).unify_dictionaries()
    if unified.num_chunks == 0:
        return np.empty(0, np.int64), []
    names: list[str] = unified.chunk(0).dictionary.to_pylist()
    parts = [_values(chunk.indices) for chunk in unified.chunks]
    return np.concatenate(parts), names


def _values(array: pa.Array) -> NDArray[Any]:
    """Numbers without a copy. ``to_numpy`` would import pandas, which takes longer than most summaries."""
    if array.null_count or not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    return np.from_dlpack(array)


def is_ok(table: pa.Table) -> NDArray[np.bool_]:
    """Which records are of requests that were answered as they should be."""
    status, names = codes(table, "status")
    return status == names.index(OK) if OK in names else np.zeros(len(status), np.bool_)
