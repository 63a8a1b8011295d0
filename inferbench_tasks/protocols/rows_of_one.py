"""One number for each sample: servers that know no bare batch axis (Triton, MLServer) have [n, 1] in place of [n]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray


def with_axis(inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """[n] -> [n, 1]; the others as they are."""
    return {name: array[:, None] if array.ndim == 1 else array for name, array in inputs.items()}


def as_taken(array: NDArray[Any], shape: Sequence[int]) -> NDArray[Any]:
    """An answer [n, 1] where ``shape`` is [n], as [n]; any other as it is, for the caller to refuse. Of an output with
    more axes than the batch the last one is the model's."""
    return array.reshape(shape) if len(shape) == 1 and array.shape == (*shape, 1) else array
