"""Samples of different lengths or shapes in an ``.npz``, without pickling and without padding.

numpy's fixed-width types would pad every sample to the longest, and drop zero bytes at an end. Here the
samples lie one after the other as uint8 under the array's name, and their ends under ``<name>:ends``. Of tensors of
different shapes the values lie so, and their shapes under ``<name>:shapes``, a row each; in memory they are an array of
objects, each a tensor of one sample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.arrays import Array, Arrays

ENDS, SHAPES = ":ends", ":shapes"


def is_ragged(array: Array) -> bool:
    """Whether each sample is a tensor of its own shape."""
    return array.dtype.kind == "O" and array.ndim == 1 and len(array) > 0 and isinstance(array[0], np.ndarray)


def rows_of(array: Array, rows: Sequence[int] | NDArray[np.int64]) -> Array:
    """These samples as one tensor, first axis = samples. ValueError where their shapes differ."""
    part = array[list(rows)] if isinstance(rows, Sequence) else array[rows]
    return np.stack(list(part)) if is_ragged(array) else part


def sample_shape(array: Array) -> tuple[int, ...]:
    """What one sample is shaped like; -1 where samples differ."""
    if not is_ragged(array):
        return array.shape[1:]
    sizes = zip(*(item.shape for item in array), strict=True)
    return tuple(size[0] if len(set(size)) == 1 else -1 for size in sizes)


def byte_count(array: Array) -> int:
    """Of all samples' values together."""
    return sum(item.nbytes for item in array) if is_ragged(array) else array.nbytes


def packed(arrays: Arrays) -> Arrays:
    """What ``numpy.savez`` can store; one-dimensional object arrays are taken apart, the rest stays."""
    plain: Arrays = {}
    for name, array in arrays.items():
        if is_ragged(array):
            plain[name] = np.concatenate([item.reshape(-1) for item in array])
            plain[name + SHAPES] = np.array([item.shape for item in array], np.int64)
        elif array.dtype.kind == "O" and array.ndim == 1:
            parts = [item.encode() if isinstance(item, str) else bytes(item) for item in array.tolist()]
            plain[name] = np.frombuffer(b"".join(parts), dtype=np.uint8)
            plain[name + ENDS] = np.cumsum([len(part) for part in parts], dtype=np.int64)
        else:
            plain[name] = array.astype(np.str_) if array.dtype.kind == "O" else array
    return plain


def unpacked(archive: Mapping[str, Array]) -> Arrays:
    """The arrays of an archive; those that ``packed`` took apart are object arrays of bytes again.

    Raises ValueError where the ends or shapes don't fit the values.
    """
    arrays: Arrays = {}
    for name in archive:
        if name.endswith((ENDS, SHAPES)) and name.rpartition(":")[0] in archive:
            continue
        array = archive[name]
        if name + SHAPES in archive:
            arrays[name] = objects(_shaped(array, archive[name + SHAPES]))
        else:
            arrays[name] = objects(_cut(array, archive[name + ENDS])) if name + ENDS in archive else array
    return arrays


def objects(items: list[Any]) -> Array:
    """A one-dimensional object array; numpy itself would turn equally long items into something else."""
    array = np.empty(len(items), dtype=np.object_)
    for index, item in enumerate(items):
        array[index] = item
    return array


def _cut(flat: Array, ends: Array) -> list[bytes]:
    bounds = [0, *ends.tolist()]
    if bounds[-1] != len(flat) or any(a > b for a, b in itertools.pairwise(bounds)):
        raise ValueError(f"the samples end at {bounds[-1]} of {len(flat)} bytes")
    raw = flat.tobytes()
    return [raw[start:end] for start, end in itertools.pairwise(bounds)]


def _shaped(flat: Array, shapes: Array) -> list[Array]:
    counts = [math.prod(shape) for shape in shapes.tolist()]
    if sum(counts) != len(flat) or any(size < 0 for size in shapes.reshape(-1).tolist()):
        raise ValueError(f"the samples' shapes have {sum(counts)} values, there are {len(flat)}")
    parts = np.split(flat, np.cumsum(counts)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes.tolist(), strict=True)]
