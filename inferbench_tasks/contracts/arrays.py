"""Tensors by name, as models take and give them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:  # whoever checks a submission reads this module; few of them compute
    import numpy as np
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"
#: One array per input or output of a model; the first axis is the samples.
Arrays: TypeAlias = "dict[str, NDArray[Any]]"

#: So many numbers of answers are compared at a time: in double precision all of them may be many times the samples.
_NUMBERS = 4_000_000


def blocks(array: Array) -> Iterator[slice]:
    """All rows of an array in parts of bounded size, one row at least."""
    rows = max(1, _NUMBERS // max(1, array.size // max(1, len(array))))
    for start in range(0, len(array), rows):
        yield slice(start, start + rows)


def accuracy_ratio(scores: Array, labels: NDArray[np.int64]) -> float:
    """The share of samples whose largest score is that of their label; NaN scores count as wrong."""
    import numpy as np

    scores = scores.reshape(len(scores), -1)
    right = (np.argmax(scores, axis=1) == labels) & np.isfinite(scores).all(axis=1)
    return float(right.mean())
