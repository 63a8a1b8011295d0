"""A distribution of times as a short table, in which a rare one stays as rare as it was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_ALL = 10_000
#: Where its parts end, of ``_ALL``: each holds 0.5% of the values, 0.1% from 95% on, 0.01% from 99.5% on.
ENDS = (*range(50, 9500, 50), *range(9500, 9950, 10), *range(9950, _ALL + 1))
_EDGES = np.array([0, *ENDS])
_SIZES = np.diff(_EDGES)
#: The part of each ten-thousandth: a look-up is several times faster than a search, and simulations make millions.
_PART_OF = np.repeat(np.arange(len(ENDS)), _SIZES)
_PARTS = tuple(map(int, _PART_OF))


@dataclass(frozen=True)
class Distribution:
    """``means``: of each part (``ENDS``), the least values first. Means, and not quantiles: the largest of these is one
    value of many, and their mean is another than that of the values."""

    means: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.means) != len(ENDS):
            raise ValueError(f"{len(self.means)} means; a distribution has {len(ENDS)}")

    @classmethod
    def of(cls, values: Sequence[float] | NDArray[np.float64]) -> Distribution:
        """Of equally likely values, however many; one that lies in two parts counts in each with its share of it."""
        sums = np.concatenate([[0.0], np.cumsum(np.sort(np.asarray(values, np.float64)))])
        upto = np.interp(_EDGES * len(values), np.arange(len(sums)) * _ALL, sums * _ALL)
        return cls(tuple(map(float, np.diff(upto) / (_SIZES * len(values)))))

    @property
    def mean(self) -> float:
        """That of all the values."""
        return math.fsum(size * mean for size, mean in zip(_SIZES, self.means, strict=True)) / _ALL

    @staticmethod
    def part(rng: np.random.Generator) -> int:
        """One of its parts, each as likely as it is large."""
        return _PARTS[int(rng.random() * _ALL)]

    @staticmethod
    def parts(uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """As ``part``, of numbers in [0, 1)."""
        parts: NDArray[np.int64] = _PART_OF[(uniform * _ALL).astype(np.int64)]
        return parts

    def draw(self, rng: np.random.Generator) -> float:
        """One value."""
        return self.means[_PARTS[int(rng.random() * _ALL)]]
