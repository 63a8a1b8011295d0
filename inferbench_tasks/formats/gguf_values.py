"""The values of a GGUF file's tensors as float32, whatever they are packed in: exactly those that the file means.

A packed type has blocks of so many values with scales of their own; llama.cpp's ``ggml-common.h`` and
``ggml-quants.c`` (``dequantize_row_*``) say how they lie. Each function below takes rows of bytes, a block each, and
gives rows of values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.errors import ConversionError
from inferbench_tasks.formats.gguf_file import TENSOR_TYPES, GgufTensor

Bytes = NDArray[np.uint8]
Values = NDArray[np.float32]

_LOW_FOUR = np.uint8(0xF)
_SIZES = {name: (block, size) for name, block, size in TENSOR_TYPES.values()}


def tensor_values(file: BinaryIO, tensor: GgufTensor) -> Values:
    """Of one tensor, in its shape.

    ConversionError where its type is not read here, where the file ends in it, or where a value is no finite number.
    """
    if tensor.type not in UNPACK:
        raise ConversionError(
            f"the tensor {tensor.name} is of {tensor.type}; read are {', '.join(sorted(UNPACK))}"
        )
    block, size = _SIZES[tensor.type]
    blocks = math.prod(tensor.shape) // block
    file.seek(tensor.begins)
    data = file.read(blocks * size)
    if len(data) != blocks * size:  # it became shorter since its head was read
        raise ConversionError(f"the file ends in the tensor {tensor.name}")
    rows = np.frombuffer(data, np.uint8).reshape(blocks, size)
    with np.errstate(invalid="ignore", over="ignore"):
        values = UNPACK[tensor.type](rows).astype(np.float32, copy=False).reshape(tensor.shape)
    if not np.isfinite(values).all():
        raise ConversionError(f"the tensor {tensor.name} has values that are NaN or infinite")
    return values


def _halves(data: Bytes) -> Values:
    """float16 numbers, two bytes each."""
    return np.ascontiguousarray(data).view("<f2").astype(np.float32)


def _f32(rows: Bytes) -> Values:
    return rows.view("<f4")


def _bf16(rows: Bytes) -> Values:
    return (rows.view("<u2").astype(np.uint32) << 16).view(np.float32)


def _nibbles(data: Bytes) -> Bytes:
    """Low halves of all bytes, then the high ones."""
    return np.concatenate([data & _LOW_FOUR, data >> 4], axis=1)


def _fifth_bits(data: Bytes) -> Bytes:
    """Four bytes, a bit for each of 32 values, as their fifth."""
    return np.unpackbits(np.ascontiguousarray(data), axis=1, bitorder="little") << np.uint8(4)


def _q4_0(rows: Bytes) -> Values:
    return _halves(rows[:, :2]) * (_nibbles(rows[:, 2:]).astype(np.float32) - 8)


def _q4_1(rows: Bytes) -> Values:
    return _halves(rows[:, :2]) * _nibbles(rows[:, 4:]) + _halves(rows[:, 2:4])


def _q5_0(rows: Bytes) -> Values:
    quants = _nibbles(rows[:, 6:]) | _fifth_bits(rows[:, 2:6])
    return _halves(rows[:, :2]) * (quants.astype(np.float32) - 16)


def _q5_1(rows: Bytes) -> Values:
    quants = _nibbles(rows[:, 8:]) | _fifth_bits(rows[:, 4:8])
    return _halves(rows[:, :2]) * quants + _halves(rows[:, 2:4])


def _q8_0(rows: Bytes) -> Values:
    return _halves(rows[:, :2]) * np.ascontiguousarray(rows[:, 2:]).view(np.int8)


def _scales_of_eight(packed: Bytes) -> tuple[Values, Values]:
    """Scales and minima of the eight parts of a block of 256: 16 numbers of six bits in twelve bytes."""
    low, mid, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 0x3F, (high & _LOW_FOUR) | (low >> 2 & 0x30)], axis=1)
    minima = np.concatenate([mid & 0x3F, (high >> 4) | (mid >> 2 & 0x30)], axis=1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _with_minima(rows: Bytes, quants: Bytes) -> Values:
    """``quants``: eight parts of 32 values in each row."""
    scales, minima = _scales_of_eight(rows[:, 4:16])
    factors, offsets = _halves(rows[:, :2]) * scales, _halves(rows[:, 2:4]) * minima
    return (factors[..., None] * quants - offsets[..., None]).reshape(len(rows), -1)


def _halves_in_turn(data: Bytes) -> Bytes:
    """Of each 32 bytes the low halves, then the high ones: a part of 32 values each."""
    parts = data.reshape(len(data), -1, 1, 32) >> np.array([0, 4], np.uint8)[:, None] & _LOW_FOUR
    return parts.reshape(len(data), -1, 32)


def _q4_k(rows: Bytes) -> Values:
    return _with_minima(rows, _halves_in_turn(rows[:, 16:]))


def _q5_k(rows: Bytes) -> Values:
    fifth = rows[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & np.uint8(1)
    return _with_minima(rows, _halves_in_turn(rows[:, 48:]) | fifth << np.uint8(4))


def _q6_k(rows: Bytes) -> Values:
    count = len(rows)
    low = rows[:, :128].reshape(count, 2, 1, 64) >> np.array([0, 4], np.uint8)[:, None] & _LOW_FOUR
    high = rows[:, 128:192].reshape(count, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & np.uint8(
        3
    )
    quants = low.reshape(count, 16, 16) | high.reshape(count, 16, 16) << np.uint8(4)
    scales = np.ascontiguousarray(rows[:, 192:208]).view(np.int8) * _halves(rows[:, 208:])
    return (scales[..., None] * (quants.astype(np.float32) - 32)).reshape(count, -1)


#: By the type's name; the others (two and three bits, and those with tables) are refused.
UNPACK: dict[str, Callable[[Bytes], Values]] = {
    "f32": _f32, "f16": _halves, "bf16": _bf16, "q4_0": _q4_0, "q4_1": _q4_1, "q5_0": _q5_0, "q5_1": _q5_1,
    "q8_0": _q8_0, "q4_k": _q4_k, "q5_k": _q5_k, "q6_k": _q6_k,
}  # fmt: skip
