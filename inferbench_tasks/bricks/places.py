"""Where a layer samples, and boxes, drawn anew: such as its operator takes, and none of a model's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from inferbench_tasks.bricks.masks import floats
from inferbench_tasks.bricks.records import RANGE_BASE
from inferbench_tasks.contracts.arrays import Array

#: So far from an even grid, or from an affine map that changes nothing; a picture is 2 wide.
_AWAY = 0.1


def drawn(place: tuple[str, int], original: Array, rng: np.random.Generator) -> Array:
    """A constant that is taken at one of ``DRAWN``, of the same shape and type."""
    values: Array = DRAWN[place](floats(original), rng).astype(original.dtype)
    return values


def _grid(original: Array, rng: np.random.Generator) -> Any:
    """``n x sides x axes``, in -1 to 1: the places of neighbours are near each other, as in a grid that was learned."""
    sides = [np.linspace(-1, 1, side) for side in original.shape[1:-1]]
    even = np.stack(np.meshgrid(*sides, indexing="ij")[::-1], axis=-1)
    return (even + rng.uniform(-_AWAY, _AWAY, original.shape)).clip(-1, 1)


def _affine(original: Array, rng: np.random.Generator) -> Any:
    """``n x axes x (axes + 1)``."""
    return np.eye(*original.shape[-2:]) + rng.uniform(-_AWAY, _AWAY, original.shape)


def _boxes(original: Array, rng: np.random.Generator) -> Any:
    """Two corners, the first before the second, or a middle and two sides: both are above zero, and below the power of
    four that the original ones reach. Of which picture a box is (MaxRoiPool) is kept."""
    reach = float(np.abs(original[..., -4:]).max(initial=0, where=np.isfinite(original[..., -4:])))
    span = RANGE_BASE ** math.floor(math.log(reach, RANGE_BASE)) if reach else 1.0
    first = rng.uniform(0, span / 2, (*original.shape[:-1], 2))
    second = first + rng.uniform(span / 8, span / 2, first.shape)
    return np.concatenate([np.trunc(original[..., :-4]), first, second], axis=-1)


def _scores(original: Array, rng: np.random.Generator) -> Any:
    return rng.uniform(0, 1, original.shape)


#: (operator, place of the input) -> what is drawn there; the same as ``constants.PLACES``.
DRAWN: dict[tuple[str, int], Callable[[Array, np.random.Generator], Any]] = {
    ("GridSample", 1): _grid,
    ("AffineGrid", 0): _affine,
    ("RoiAlign", 1): _boxes,
    ("MaxRoiPool", 1): _boxes,
    ("NonMaxSuppression", 0): _boxes,
    ("NonMaxSuppression", 1): _scores,
}
