"""Spearman's rank correlation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata


def spearman(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Pearson's correlation of the ranks, equal values with their mean rank (C. Spearman, 1904).

    NaN where all values of one side are equal: there is no order then.
    """
    a, b = rankdata(one), rankdata(other)
    a, b = a - a.mean(), b - b.mean()
    length = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / length if length else math.nan
