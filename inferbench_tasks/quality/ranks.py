"""Ranks, and Spearman's correlation of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """1 for the smallest; equal values have their mean rank. All NaN where one value is.

    As ``scipy.stats.rankdata``, without importing ``scipy.stats`` for a second.
    """
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    begins = np.concatenate([[True], ascending[1:] != ascending[:-1]])[: len(values)]
    edges = np.append(np.flatnonzero(begins), len(values))
    found = np.empty(len(values))
    found[order] = np.repeat((edges[:-1] + edges[1:] + 1) / 2, np.diff(edges))
    return found


def spearman(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Pearson's correlation of the ranks, equal values with their mean rank (C. Spearman, 1904).

    NaN where all values of one side are equal: there is no order then.
    """
    a, b = ranks(one), ranks(other)
    a, b = a - a.mean(), b - b.mean()
    length = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / length if length else math.nan
