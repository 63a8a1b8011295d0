"""Values out of packed tensors, against those that llama.cpp's own Python package unpacks."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import pytest

from inferbench_tasks.errors import ConversionError
from inferbench_tasks.formats.gguf_file import TENSOR_TYPES, GgufTensor
from inferbench_tasks.formats.gguf_values import UNPACK, tensor_values

_SIZES = {name: (block, size) for name, block, size in TENSOR_TYPES.values()}
#: Of four blocks of bytes by chance, whose scales (at these bytes) are -1.25 and 0.375: what ``gguf`` 0.19.0 makes of
#: them, as the SHA-256 of its float32 values and as some of them.
BY_GGUF = [
    ("q4_0", (0,), "681b5dc75c4d12a7", [-8.75, -8.75, 8.75, -1.25]),
    ("q4_1", (0, 2), "6274c3d4b7c8c9d1", [-0.875, -17.125, -18.375, -12.125]),
    ("q5_0", (0,), "3cc7b2429efd054a", [-18.75, -15.0, 10.0, -2.5]),
    ("q5_1", (0, 2), "50f5299d79f2aa21", [-22.125, -10.875, -22.125, -35.875]),
    ("q8_0", (0,), "c6c221b6e0fc147a", [-30.0, 75.0, -151.25, -152.5]),
    ("q4_k", (0, 2), "6d46528a56fdb524", [-90.5, -90.5, -2.625, -122.625]),
    ("q5_k", (0, 2), "969f1614b8468f46", [-474.75, -87.25, -1005.0, -1095.0]),
    ("q6_k", (208,), "14778c48194c912c", [333.75, 3226.25, 1333.75, 2788.75]),
]


def values_of(
    kind: str, rows: bytes, shape: tuple[int, ...]
) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """What is read of a file that holds these bytes behind eight others."""
    return tensor_values(io.BytesIO(bytes(8) + rows), GgufTensor("t", kind, shape, 8))


@pytest.mark.parametrize(("kind", "scales", "digest", "some"), BY_GGUF, ids=[row[0] for row in BY_GGUF])
def test_packed_values_are_those_that_llama_cpp_s_package_reads(
    kind: str, scales: tuple[int, ...], digest: str, some: list[float]
) -> None:
    """To the last bit."""
    block, size = _SIZES[kind]
    rows = np.random.default_rng(size).integers(0, 256, (4, size), dtype=np.uint8)
    for at, scale in zip(scales, (-1.25, 0.375), strict=False):
        rows[:, at : at + 2] = np.array([scale], "<f2").view(np.uint8)
    values = values_of(kind, rows.tobytes(), (2, 2 * block))
    assert values.dtype == np.float32 and values.shape == (2, 2 * block)
    assert values.reshape(-1)[30:34].tolist() == some
    assert hashlib.sha256(values.astype("<f4").tobytes()).hexdigest()[:16] == digest


def test_plain_values_are_themselves() -> None:
    """float32, float16 and bfloat16; all types are tested here."""
    numbers = np.array([[0.5, -2.0, 1.5], [3.0, -0.25, 96.0]], np.float32)
    assert np.array_equal(values_of("f32", numbers.tobytes(), (2, 3)), numbers)
    assert np.array_equal(values_of("f16", numbers.astype("<f2").tobytes(), (2, 3)), numbers)
    upper = (numbers.view(np.uint32) >> 16).astype("<u2")
    assert np.array_equal(values_of("bf16", upper.tobytes(), (2, 3)), numbers)
    assert set(UNPACK) == {row[0] for row in BY_GGUF} | {"f32", "f16", "bf16"}


def test_what_can_t_be_read_is_refused() -> None:
    """A type with a table, a file that ends, and weights that are no numbers, with the tensor's name."""
    with pytest.raises(ConversionError, match="the tensor t is of iq2_xs; read are bf16, f16, f32, q4_0"):
        values_of("iq2_xs", bytes(74), (256,))
    with pytest.raises(ConversionError, match="the file ends in the tensor t"):
        values_of("f32", bytes(7), (2,))
    broken = np.array([np.nan, 1.0], "<f2").tobytes() + bytes(32)
    with pytest.raises(ConversionError, match="the tensor t has values that are NaN or infinite"):
        values_of("q8_0", broken[:34], (32,))
