"""Which floats are a mask's and no activation's or weight's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: At and below it a float masks: published networks add -1e4 or the type's least value.
MASKED = -5_000.0


def has_mask(numbers: NDArray[Any]) -> bool:
    """Whether some of them mask, or are not finite; without a copy of them. ``numbers``: see ``floats``."""
    return bool(numbers.size) and not (float(numbers.min()) > MASKED and float(numbers.max()) < math.inf)


def masked(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Where they mask."""
    where: NDArray[np.bool_] = numbers <= MASKED
    return where


def masked_or_infinite(numbers: NDArray[Any]) -> NDArray[np.bool_]:
    """Where they mask or are not finite: among constants both are a mask's."""
    where: NDArray[np.bool_] = masked(numbers) | ~np.isfinite(numbers)
    return where


def floats(array: NDArray[Any]) -> NDArray[Any]:
    """A tensor of floats in a type that numpy computes in: as it is, or in float32 (bfloat16, eight bits)."""
    return array if array.dtype.kind == "f" else array.astype(np.float32)
