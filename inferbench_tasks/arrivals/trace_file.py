"""Reads the moments of a trace; says which row is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.arrivals.base import MAX_ARRIVALS
from inferbench_tasks.arrivals.trace_lines import MOONCAKE_COLUMN, MOONCAKE_UNIT, first_fields, numbers
from inferbench_tasks.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

#: The column of moments in Azure's traces of language models.
AZURE_COLUMN = "TIMESTAMP"
_NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
#: A trace longer than a hundred years is in another unit than it says.
_LONGEST_NS = 100 * 366 * 86_400 * 10**9


def read_times_ns(base_dir: Path, path: str, column: str, unit: str) -> NDArray[np.int64]:
    """The moments after the first one, ns, ascending; at least one. InputError says what is wrong where."""
    import numpy as np
    import pyarrow as pa

    file = file_inside(base_dir, path)
    try:
        if _mooncake(file, path, column):
            column, unit = MOONCAKE_COLUMN, MOONCAKE_UNIT
        values = read_column(file, path, column)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} can't be read as a trace: {error}") from error
    if not len(values):
        raise InputError(f"{path} holds no request: column {column} is empty")
    if len(values) > MAX_ARRIVALS:
        raise InputError(f"{path} holds {len(values):,} requests; at most {MAX_ARRIVALS:,} are possible")
    if values.null_count:
        row = int(np.flatnonzero(np.asarray(values.is_null()))[0])
        raise InputError(f"{path}, row {row + 1}: no moment in column {column}")
    if pa.types.is_timestamp(values.type):
        times = np.asarray(values.cast(pa.timestamp("ns")).cast(pa.int64()))
    else:
        times = _numbers_ns(values, path, column, unit)
    if (backwards := np.flatnonzero(times[1:] < times[:-1])).size:
        row = int(backwards[0]) + 1
        raise InputError(
            f"{path}, row {row + 1}: {column} is {values[row].as_py()}, before {values[row - 1].as_py()} in the row "
            "above; sort the file by time"
        )
    return np.asarray(times - times[0], np.int64)


def _numbers_ns(values: pa.ChunkedArray, path: str, column: str, unit: str) -> NDArray[np.int64]:
    import numpy as np
    import pyarrow as pa

    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise InputError(
            f"{path}: column {column} holds {values.type}, not moments; allowed are numbers, and dates with times "
            "as 2026-01-31 12:00:00.5"
        )
    numbers = np.asarray(values)
    if (wrong := np.flatnonzero(~np.isfinite(numbers) | (numbers < 0))).size:
        row = int(wrong[0])
        raise InputError(f"{path}, row {row + 1}: {column} is {numbers[row]}; a moment must be 0 or later")
    if numbers[-1] * _NS[unit] > 2**63 - 1 or (numbers[-1] - numbers[0]) * _NS[unit] > _LONGEST_NS:
        raise InputError(
            f"{path}: the last moment is {numbers[-1]} {unit}: longer than a hundred years; check unit"
        )
    if pa.types.is_integer(values.type):
        return (numbers.astype(np.int64) - int(numbers[0])) * int(_NS[unit])
    # From the first one on: a float of today's Unix time in seconds has no nanoseconds to offer.
    return np.asarray((numbers - numbers[0]) * _NS[unit], np.int64)


def _mooncake(file: Path, path: str, column: str) -> bool:
    """Whether the file has Mooncake's column of moments instead of Azure's, which are asked for unless others are."""
    return (
        column == AZURE_COLUMN
        and is_lines(path)
        and column not in (names := first_fields(file, path))
        and (MOONCAKE_COLUMN in names)
    )


def is_lines(path: str) -> bool:
    """Whether it has a JSON document in each line."""
    return path.lower().endswith(".jsonl")


def column_names(file: Path, path: str) -> list[str]:
    """The columns of a trace; InputError where it is none."""
    import pyarrow as pa

    try:
        if is_lines(path):
            return first_fields(file, path)
        if path.lower().endswith(".parquet"):
            import pyarrow.parquet as pq

            with pq.ParquetFile(file) as parquet:
                return list(parquet.schema_arrow.names)
        from pyarrow import csv

        with csv.open_csv(file) as reader:
            return list(reader.schema.names)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} can't be read as a trace: {error}") from error


def file_inside(base_dir: Path, path: str) -> Path:
    """The file, links followed; InputError if that leads out of the folder, or to no plain file."""
    root = base_dir.resolve()
    try:
        file = (root / path).resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: there is no such file in {base_dir}") from error
    if not file.is_relative_to(root):
        raise InputError(f"{path} leads out of the submission's folder ({base_dir})")
    if not file.is_file():
        raise InputError(f"{path} is no file")
    return file


def read_column(file: Path, path: str, column: str) -> Any:
    """The column, as an Arrow chunked array; reading stops beyond the most that a load can hold."""
    import pyarrow as pa

    name = path.lower()
    if is_lines(path):
        return pa.chunked_array([pa.array(numbers(file, path, column, MAX_ARRIVALS))])
    if name.endswith((".csv", ".csv.gz")):
        try:
            return _read_csv(file, path, column, {})
        except pa.ArrowInvalid:
            # Arrow guesses the type from the file's beginning: whole numbers may turn into fractions later.
            return _read_csv(file, path, column, {column: pa.float64()})
    if name.endswith(".parquet"):
        import pyarrow.parquet as pq

        with pq.ParquetFile(file) as parquet:
            _require(column, parquet.schema_arrow.names, path)
            if parquet.metadata.num_rows > MAX_ARRIVALS:
                rows = parquet.metadata.num_rows
                raise InputError(f"{path} holds {rows:,} requests; at most {MAX_ARRIVALS:,} are possible")
            return parquet.read([column]).column(0)
    raise InputError(f"{path} is no trace: allowed are .csv, .csv.gz, .parquet and .jsonl")


def _read_csv(file: Path, path: str, column: str, types: dict[str, Any]) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    with csv.open_csv(file, convert_options=csv.ConvertOptions(column_types=types)) as reader:
        _require(column, reader.schema.names, path)
        index = reader.schema.names.index(column)
        chunks, rows = [], 0
        for batch in reader:
            chunks.append(batch.column(index))
            rows += len(batch)
            if rows > MAX_ARRIVALS:
                break
        return pa.chunked_array(chunks, reader.schema.field(index).type)


def _require(column: str, columns: list[str], path: str) -> None:
    if columns.count(column) != 1:
        known = ", ".join(repr(name) for name in columns[:20]) + (", ..." if len(columns) > 20 else "")
        what = "more than one column" if column in columns else "no column"
        raise InputError(f"{path} has {what} {column!r}; its columns: {known}; name the right one as column")
