"""Writing a safetensors file, a tensor at a time: a length, a JSON of what lies where, and the values.

https://github.com/huggingface/safetensors#format: little-endian, values without gaps, in the order of their offsets.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT = 8


def write_float32(
    path: Path, shapes: Mapping[str, tuple[int, ...]], values: Iterable[NDArray[np.float32]]
) -> None:
    """A file of tensors in float32. ``values``: those of ``shapes``, in its order; one is in memory at a time."""
    head: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * math.prod(shape)
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [begin, end]}
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for (name, shape), array in zip(shapes.items(), values, strict=True):
            if array.shape != shape:
                raise ValueError(f"{name} is {list(array.shape)}, announced was {list(shape)}")
            file.write(np.ascontiguousarray(array, "<f4").data)
