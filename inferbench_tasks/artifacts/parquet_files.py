"""The memory that a Parquet file will take, told before it is read: repeated values take almost no bytes in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError

#: Bytes in memory of a value; texts count by their lengths besides.
WIDTH_BYTES = {
    "BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8, "BYTE_ARRAY": 8,
}  # fmt: skip
BATCH_ROWS = 16_384


def read(path: Path, max_bytes: int, field: str | None = None) -> Any:
    """The table. InputError where it is no Parquet file or would take more than ``max_bytes`` in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            texts = _check(file, path, max_bytes, field)
        for name in texts:
            with pq.ParquetFile(path, read_dictionary=[name]) as file:
                _check_texts(file, name, path, max_bytes, field)
        return pq.read_table(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path} can't be read: {error}", field=field) from error


def _check(file: Any, path: Path, max_bytes: int, field: str | None) -> list[str]:
    """By the number of values and their types; the columns of texts, whose lengths the footer does not tell."""
    metadata, total, texts = file.metadata, 8 * file.metadata.num_rows, set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            kind = column.physical_type
            width = WIDTH_BYTES.get(kind) or max(1, metadata.schema.column(index).length)
            # The footer's words are the writer's: what is negative there is nobody's size.
            if column.num_values < 0 or column.total_uncompressed_size < 0:
                raise InputError(f"{path} is damaged: a column has {column.num_values} values", field=field)
            total += column.num_values * width
            if kind == "BYTE_ARRAY":
                total += column.total_uncompressed_size
                texts.add(column.path_in_schema)
    if total > max_bytes or metadata.num_rows < 0:
        raise InputError(
            f"{path} has {path.stat().st_size:,} bytes and would take {total:,} in memory ({metadata.num_rows:,} "
            f"rows), allowed are {max_bytes:,}; give fewer rows",
            field=field,
        )
    return sorted(texts)


def _check_texts(file: Any, name: str, path: Path, max_bytes: int, field: str | None) -> None:
    """A text that is there once and used in every row is as long in memory as all of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0
    for batch in file.iter_batches(BATCH_ROWS, columns=[name]):
        for array in batch.columns:
            while pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
                array = array.flatten()
            if pa.types.is_dictionary(array.type):
                lengths = pc.binary_length(array.dictionary)
                total += pc.sum(pc.take(lengths, array.indices)).as_py() or 0
            else:
                total += array.nbytes
        if total > max_bytes:
            raise InputError(
                f"{path}: the texts of {name!r} would take more than the {max_bytes:,} bytes that are allowed",
                field=field,
            )
