"""The first points of a search: together they have as many pairs of settings as so few can."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Covering:
    """Over a discrete space; a pair of axes counts the same however many values they have."""

    def __init__(self, points: Sequence[Mapping[str, Any]]) -> None:
        axes = list(dict.fromkeys(axis for point in points for axis in point))
        codes = [np.unique([repr(p.get(axis)) for p in points], return_inverse=True)[1] for axis in axes]
        varied = [code for code in codes if code.max()]
        self._pairs: list[NDArray[np.intp]] = [
            a * (b.max() + 1) + b for a, b in itertools.combinations(varied, 2)
        ] or varied
        self._sizes = [len(np.unique(pair)) for pair in self._pairs]

    def next(self, candidates: NDArray[np.intp], runs: Sequence[int], rng: np.random.Generator) -> int:
        """Of the indexes ``left`` the one with the most pairs that no known one has; ties by chance."""
        gain = 1e-3 * rng.random(len(candidates))
        for pair, size in zip(self._pairs, self._sizes, strict=True):
            gain += ~np.isin(pair[candidates], pair[list(runs)]) / size
        return int(candidates[int(np.argmax(gain))])
