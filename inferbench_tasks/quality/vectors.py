"""Answers as vectors, one for each sample, and what can't be worked out of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import Answered


def vectors(answered: Answered) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """``samples x values`` of the first output of several numbers, as served and as the source has it; None of none."""
    for name in answered.source:
        source = answered.source[name]
        if name in answered.outputs and source.dtype.kind == "f" and source.size > len(source):
            pair = [
                a.reshape(len(a), -1).astype(np.float64)
                for a in (answered.outputs[name], answered.source[name])
            ]
            return pair[0], pair[1]
    return None


def why_not(answered: Answered) -> str | None:
    """Why no directions can be compared."""
    pair = vectors(answered)
    if pair is None:
        return "no output of several numbers is the source's and the served model's"
    if pair[0].shape != pair[1].shape:
        return "the served vectors have another length than the source's"
    if not all(np.isfinite(part).all() for part in pair):
        return "some values are no finite numbers"
    if any((np.abs(part).max(axis=1) == 0).any() for part in pair):
        return "some vectors are zero and have no direction"
    return None


def cosines(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Row by row, from -1 to 1."""
    # Each by its largest value first: squares of small or large values would be lost.
    one = one / np.abs(one).max(axis=1, keepdims=True)
    other = other / np.abs(other).max(axis=1, keepdims=True)
    dots = (one * other).sum(axis=1)
    cosine: NDArray[np.float64] = np.clip(
        dots / (np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)), -1.0, 1.0
    )
    return cosine
