"""A stream of answers as series over equal bins, and where the start's transient ends in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NS_PER_S = 1e9


@dataclass(frozen=True)
class Bins:
    """Series over equal bins. ``level``: median latency, ms; ``mean``: ms; ``rate``: answers per second."""

    width_s: float
    level: NDArray[np.float64]
    mean: NDArray[np.float64]
    rate: NDArray[np.float64]

    def transient(self, effect_ratio: float) -> int:
        """Bins that belong to the start: MSER's cut, and slow bins right at the beginning.

        MSER cuts at any wobble too; its cut stands if without it the mean would be off by ``effect_ratio``.
        """
        half = len(self.level) // 2
        cut = 0
        for series in (self.level, self.rate):
            at = _mser(series)
            rest = float(series[at:].mean())
            if abs(float(series.mean()) - rest) > effect_ratio * rest:
                cut = max(cut, at)
        usual = float(np.median(self.mean[half:]))
        slow = 0
        while slow < half and self.mean[slow] > 1.5 * usual:
            slow += 1
        return max(cut, slow)


def cut_into_bins(
    done_ns: NDArray[np.int64], latency_ns: NDArray[np.int64], start_ns: int, end_ns: int, width_s: float
) -> Bins:
    """Bins of at least ``width_s`` over [start_ns, end_ns), in which all ``done_ns`` lie; one at least."""
    span_s = (end_ns - start_ns) / _NS_PER_S
    count = max(1, int(span_s / width_s))
    width_s = span_s / count
    index = np.minimum(((done_ns - start_ns) / (width_s * _NS_PER_S)).astype(np.int64), count - 1)
    sizes = np.bincount(index, minlength=count)
    edges = np.concatenate([[0], np.cumsum(sizes)])
    order = np.argsort(index, kind="stable")
    del index
    ordered = latency_ns[order] / 1e6
    del order
    level, mean = np.empty(count), np.empty(count)
    previous = float(np.median(ordered))
    for k in range(count):
        if sizes[k]:
            piece = np.sort(ordered[edges[k] : edges[k + 1]])
            previous = level[k] = float(piece[(len(piece) - 1) // 2])
            mean[k] = float(piece.mean())
        else:  # nothing was answered: the throughput shows it, the level stays
            level[k] = mean[k] = previous
    return Bins(width_s, level, mean, sizes / width_s)


def _mser(series: NDArray[Any]) -> int:
    """The cut that makes the mean of the rest most certain (White, 1997); within the first half."""
    n = len(series)
    ends = np.arange(n // 2)
    rest = n - ends
    total = np.cumsum(series[::-1])[::-1][ends]
    squares = np.cumsum(series[::-1] ** 2)[::-1][ends]
    return int(np.argmin((squares - total**2 / rest) / rest.astype(float) ** 2))
