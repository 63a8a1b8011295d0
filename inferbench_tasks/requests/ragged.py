"""Arrays of bytes or texts of different lengths in an ``.npz``, without pickling and without padding.

numpy's fixed-width types would pad every sample to the longest, and drop zero bytes at an end. Here the
samples lie one after the other as uint8 under the array's name, and their ends under ``<name>:ends``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Array, Arrays

ENDS = ":ends"


def packed(arrays: Arrays) -> Arrays:
    """What ``numpy.savez`` can store; one-dimensional object arrays are taken apart, the rest stays."""
    plain: Arrays = {}
    for name, array in arrays.items():
        if array.dtype.kind == "O" and array.ndim == 1:
            parts = [item.encode() if isinstance(item, str) else bytes(item) for item in array.tolist()]
            plain[name] = np.frombuffer(b"".join(parts), dtype=np.uint8)
            plain[name + ENDS] = np.cumsum([len(part) for part in parts], dtype=np.int64)
        else:
            plain[name] = array.astype(np.str_) if array.dtype.kind == "O" else array
    return plain


def unpacked(archive: Mapping[str, Array]) -> Arrays:
    """The arrays of an archive; those that ``packed`` took apart are object arrays of bytes again.

    Raises ValueError where the ends don't fit the bytes.
    """
    arrays: Arrays = {}
    for name in archive:
        if name.endswith(ENDS):
            continue
        array = archive[name]
        arrays[name] = objects(_cut(array, archive[name + ENDS])) if name + ENDS in archive else array
    return arrays


def objects(items: list[Any]) -> Array:
    """A one-dimensional object array; numpy itself would turn equally long items into something else."""
    array = np.empty(len(items), dtype=np.object_)
    array[:] = items
    return array


def _cut(flat: Array, ends: Array) -> list[bytes]:
    bounds = [0, *ends.tolist()]
    if bounds[-1] != len(flat) or any(a > b for a, b in itertools.pairwise(bounds)):
        raise ValueError(f"the samples end at {bounds[-1]} of {len(flat)} bytes")
    raw = flat.tobytes()
    return [raw[start:end] for start, end in itertools.pairwise(bounds)]
