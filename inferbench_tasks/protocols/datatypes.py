"""The datatypes of the Open Inference Protocol (KServe v2) and numpy's."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.protocols.problem import RequestProblem

Array = NDArray[np.generic]

#: Protocol's name -> numpy's. BYTES are strings; BF16 has no numpy type and is not offered.
NUMPY_OF: dict[str, np.dtype[np.generic]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32),
    "UINT64": np.dtype(np.uint64),
    "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16),
    "FP32": np.dtype(np.float32),
    "FP64": np.dtype(np.float64),
    "BYTES": np.dtype(np.object_),
}
PROTOCOL_OF = {dtype.name: name for name, dtype in NUMPY_OF.items()}


def datatype_of(dtype: str) -> str:
    """The protocol's name of a numpy dtype ("float32" -> "FP32"); strings and objects are BYTES."""
    if dtype in ("object", "str", "string", "bytes"):
        return "BYTES"
    if dtype not in PROTOCOL_OF:
        raise ValueError(f"dtype {dtype!r} has no datatype in KServe v2; known: {', '.join(PROTOCOL_OF)}")
    return PROTOCOL_OF[dtype]


def pack_bytes(array: Array) -> bytes:
    """BYTES elements as the protocol carries them: a little-endian uint32 length before each."""
    parts: list[bytes] = []
    for item in array.reshape(-1).tolist():
        raw = item.encode() if isinstance(item, str) else bytes(item)
        parts += (struct.pack("<I", len(raw)), raw)
    return b"".join(parts)


def unpack_bytes(raw: bytes | memoryview, count: int, where: str) -> Array:
    """``count`` BYTES elements; RequestProblem if the lengths don't add up."""
    if not 0 <= 4 * count <= len(raw):
        raise RequestProblem(f"{where}: {count} BYTES elements don't fit into {len(raw)} bytes")
    out = np.empty(count, dtype=np.object_)
    at = 0
    for index in range(count):
        if at + 4 > len(raw):
            raise RequestProblem(f"{where}: {count} BYTES elements expected, the data ends at {index}")
        (size,) = struct.unpack_from("<I", raw, at)
        at += 4
        if at + size > len(raw):
            raise RequestProblem(f"{where}: element {index} says {size} bytes, {len(raw) - at} are left")
        out[index] = bytes(raw[at : at + size])
        at += size
    if at != len(raw):
        raise RequestProblem(f"{where}: {len(raw) - at} bytes are left after {count} BYTES elements")
    return out
