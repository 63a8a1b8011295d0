"""One number for each sample: servers that know no bare batch axis (Triton, MLServer) have [n, 1] in place of [n]."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray


def with_axis(inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """[n] -> [n, 1]; the others as they are."""
    return {name: array[:, None] if array.ndim == 1 else array for name, array in inputs.items()}


def without_axis(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """[rows, 1] -> [rows]; another shape as it is, for the caller to refuse. Of an output that is one number for each
    sample: of any other the last axis is the model's."""
    return array.reshape(rows) if array.shape == (rows, 1) else array
