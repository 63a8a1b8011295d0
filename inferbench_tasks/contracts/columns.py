"""Arrow columns of what lies in memory, without ``pa.array``: that imports pandas first, a second of CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def numbers(values: NDArray[Any], there: NDArray[np.bool_] | None = None) -> pa.Array:
    """Whole numbers or floats of one dimension, as they lie in memory; null where they are not ``there``."""
    if values.dtype.kind not in "iuf" or values.ndim != 1:
        raise ValueError(f"{values.dtype} {list(values.shape)} is no column of numbers")
    exact = np.ascontiguousarray(values)
    nulls = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(pa.from_numpy_dtype(exact.dtype), len(exact), [nulls, pa.py_buffer(exact)])


def rows_of_numbers(values: NDArray[Any]) -> pa.Array:
    """A list of numbers for each row of a table of them."""
    return pa.FixedSizeListArray.from_arrays(numbers(values.reshape(-1)), values.shape[1])


def texts(values: Sequence[str]) -> pa.Array:
    """Texts, fewer than 2 GiB in all."""
    data = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(data), pa.py_buffer(ends), pa.py_buffer(b"".join(data)))
