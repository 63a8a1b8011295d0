"""Changes of level in a noisy series: where they are, and how certain."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]


@dataclass(frozen=True)
class Segment:
    """Bins [start, stop) at one level."""

    start: int
    stop: int
    level: float


def without_spikes(series: Series, half_width: int = 4, limit: float = 4.0) -> Series:
    """The series with single bins far from their neighbours replaced by the neighbours' median (Hampel)."""
    n = len(series)
    padded = np.concatenate([series[half_width:0:-1], series, series[-2 : -half_width - 2 : -1]])
    around = np.lib.stride_tricks.sliding_window_view(padded, 2 * half_width + 1)[:n]
    middle = np.median(around, axis=1)
    distance = np.abs(series - middle)
    scale = 1.4826 * float(np.median(distance))
    return np.where(distance > limit * max(scale, 1e-12 * abs(float(middle.mean()))), middle, series)


def noise_variance(series: Series) -> float:
    """Long-run variance of the noise, per bin; level changes hardly add to it.

    From medians of squared differences between bins one and four apart: the first tells the part of the
    noise that neighbours don't share, the second nearly all of it.
    """
    if len(series) < 24:
        return float(np.var(series))

    def half_difference(lag: int) -> float:
        # The median of a squared normal is 0.4549 times its mean.
        return float(np.median((series[lag:] - series[:-lag]) ** 2)) / 0.4549 / 2

    near, far = half_difference(1), half_difference(4)
    variance = max(near, far)
    if variance <= 0:
        return float(np.var(series)) * 1e-6
    r = min(max(1 - near / variance, 0.0), 0.8)
    return variance * (1 + r) / (1 - r)


def segments(series: Series, penalty: float, least: int) -> list[Segment]:
    """The split into constant pieces of at least ``least`` bins that fits best at ``penalty`` for each."""
    n = len(series)
    total = np.concatenate([[0.0], np.cumsum(series)])
    squares = np.concatenate([[0.0], np.cumsum(series**2)])
    best = np.full(n + 1, math.inf)
    best[0] = -penalty
    origin = np.zeros(n + 1, np.int64)
    for stop in range(least, n + 1):
        starts = np.arange(0, stop - least + 1)
        sums = total[stop] - total[starts]
        cost = best[starts] + squares[stop] - squares[starts] - sums**2 / (stop - starts) + penalty
        index = int(np.argmin(cost))
        best[stop], origin[stop] = cost[index], starts[index]
    segments: list[Segment] = []
    stop = n
    while stop > 0:
        start = int(origin[stop])
        segments.append(Segment(start, stop, float((total[stop] - total[start]) / (stop - start))))
        stop = start
    return segments[::-1]


def merged(pieces: list[Segment], tolerance_ratio: float) -> list[Segment]:
    """Neighbours whose levels differ by less than the tolerance made one, the closest pair first."""
    pieces = list(pieces)
    while len(pieces) > 1:
        gaps = [
            abs(b.level - a.level) / max(min(abs(a.level), abs(b.level)), 1e-12)
            for a, b in itertools.pairwise(pieces)
        ]
        index = int(np.argmin(gaps))
        if gaps[index] > tolerance_ratio:
            break
        a, b = pieces[index], pieces[index + 1]
        size = b.stop - a.start
        level = (a.level * (a.stop - a.start) + b.level * (b.stop - b.start)) / size
        pieces[index : index + 2] = [Segment(a.start, b.stop, level)]
    return pieces


def straight_line(series: Series) -> tuple[float, float, float]:
    """(slope per bin, its standard error, sum of squared residuals) of the best line."""
    n = len(series)
    bins = np.arange(n) - (n - 1) / 2
    spread = float(bins @ bins)
    slope = float(bins @ series) / spread
    residual = series - series.mean() - slope * bins
    return slope, math.sqrt(long_run_variance(residual) / spread), float(residual @ residual)


def long_run_variance(residual: NDArray[Any]) -> float:
    """Variance of a sum per term where neighbours resemble each other, by their correlation."""
    squares = float(residual @ residual)
    if squares <= 0:
        return 0.0
    r = min(max(float(residual[1:] @ residual[:-1]) / squares, 0.0), 0.9)
    return squares / max(1, len(residual) - 2) * (1 + r) / (1 - r)
