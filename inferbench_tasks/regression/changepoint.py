"""Change points in a history: E-Divisive, as Apache Otava (Hunter) runs it nightly.

The energy statistic of a split of Z into left X (n values) and right Y (m values), with alpha = 1:

    q = n m / (n + m) * (2 E|X - Y| - E|X - X'| - E|Y - Y'|)

Its largest value over all splits is compared with that of permuted histories (Matteson and James 2014,
"A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data"); a significant split divides
the history, and both sides are searched again. The package apache-otava itself isn't used: it pins numpy to one
version and brings clients of five databases; ``benchmarks/regression`` runs it beside ours.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: A side of a split needs so many values.
MIN_SEGMENT = 2
PERMUTATIONS = 999


@dataclass(frozen=True)
class ChangePoint:
    """``index`` is the first value after the change; ``before`` and ``after`` are its segments' medians."""

    index: int
    p_value: float
    before: float
    after: float


def change_points(
    history: Sequence[float], alpha: float = 0.01, permutations: int = PERMUTATIONS, seed: int = 1
) -> list[ChangePoint]:
    """All change points of a history, in order; deterministic for a seed.

    ``alpha`` bounds the chance of a change point in a history that has none.
    """
    values = np.asarray(history, float)
    rng = np.random.default_rng(seed)
    splits: list[tuple[int, float]] = []
    open_segments = [(0, len(values))]
    while open_segments:
        start, end = open_segments.pop()
        split = best_split(values[start:end], permutations, rng, alpha)
        if split is None or split[1] > alpha:
            continue
        index = start + split[0]
        splits.append((index, split[1]))
        open_segments += [(start, index), (index, end)]
    splits.sort()
    borders = [0, *(index for index, _ in splits), len(values)]
    medians = [float(np.median(values[a:b])) for a, b in itertools.pairwise(borders)]
    return [ChangePoint(index, p, medians[i], medians[i + 1]) for i, (index, p) in enumerate(splits)]


def chance(
    history: Sequence[float], alpha: float, permutations: int = PERMUTATIONS, seed: int = 1
) -> float | None:
    """The p-value by which ``change_points`` judges the whole history; None if it is too short, or all alike."""
    split = best_split(np.asarray(history, float), permutations, np.random.default_rng(seed), alpha)
    return None if split is None else split[1]


def best_split(
    values: NDArray[np.float64], permutations: int, rng: np.random.Generator, alpha: float = 1.0
) -> tuple[int, float] | None:
    """The split with the largest statistic and its permutation p-value; None if the history is too short.

    Once the p-value can't be ``alpha`` any more, that of the permutations so far is given.
    """
    n = len(values)
    if n < 2 * MIN_SEGMENT:
        return None
    distances = np.abs(values[:, None] - values[None, :])
    statistics = _statistics(distances[None])[0]
    index = int(np.argmax(statistics))
    largest = statistics[index]
    if largest <= 0:
        return None
    orders = rng.permuted(np.tile(np.arange(n), (permutations, 1)), axis=1)
    at_least_as_large = tried = 0
    for block in np.array_split(orders, max(1, permutations // 1000, permutations * n * n // 4_000_000)):
        shuffled = distances[block[:, :, None], block[:, None, :]]
        at_least_as_large += int((_statistics(shuffled).max(axis=1) >= largest - 1e-12).sum())
        tried += len(block)
        if at_least_as_large + 1 > alpha * (permutations + 1):
            break
    return index + MIN_SEGMENT, (at_least_as_large + 1) / (tried + 1)


def _statistics(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """q of every allowed split: (..., n, n) distances -> (..., splits)."""
    n = distances.shape[-1]
    # square[k]: sum over the upper left k x k block; row[k]: sum over the first k rows.
    square = np.diagonal(distances.cumsum(-1).cumsum(-2), axis1=-2, axis2=-1)
    row = distances.sum(-1).cumsum(-1)
    total = row[..., -1:]
    k = np.arange(MIN_SEGMENT, n - MIN_SEGMENT + 1)
    m = n - k
    left = square[..., k - 1]
    across = row[..., k - 1] - left
    right = total - left - 2 * across
    between = 2 * across / (k * m)
    within = left / (k * np.maximum(k - 1, 1)) + right / (m * np.maximum(m - 1, 1))
    q: NDArray[np.float64] = k * m / n * (between - within)
    return q
