"""How far the gaps between requests strayed from the planned ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Fewer gaps than this have no distribution to speak of.
_MIN_GAPS = 20
#: Gaps are looked at on a scale of this many slacks at least: below it every difference would be excused.
_SLACKS = 5
_PIECE = 1 << 16


@dataclass(frozen=True)
class GapDistance:
    """``slack``: the judged distance; ``plain``: the ordinary KS distance of single gaps; both 0 to 1.

    ``stride``: the judged gaps lie between a request and the one that is so many further on.
    """

    slack: float
    plain: float
    stride: int


def gap_distance(
    planned_ns: NDArray[np.int64], actual_ns: NDArray[np.int64], slack_ns: float
) -> GapDistance | None:
    """Kolmogorov-Smirnov distance between planned and actual gaps that forgives shifts up to ``slack_ns``.

    sup over x of F(x - slack) - G(x), for (F, G) = (actual, planned) and (planned, actual). Without slack
    equal gaps would be at distance 1 from gaps that a nanosecond of jitter was added to. Where requests
    come closer than the slack, gaps over several requests are compared instead, so that bursts still show.
    Planned and actual belong to the same schedule: the distance is an effect and has no sampling error,
    so no p-value either. None with too few requests for a distribution.
    """
    n = min(len(planned_ns), len(actual_ns))
    if n < 2:
        return None
    span = float(np.max(planned_ns) - np.min(planned_ns))
    mean_gap = span / (n - 1)
    stride = max(1, math.ceil(_SLACKS * slack_ns / mean_gap)) if mean_gap > 0 else n
    if n - stride < _MIN_GAPS:
        return None
    planned, actual = ascending(planned_ns), ascending(actual_ns)
    return GapDistance(
        slack=_distance(_gaps(planned, stride), _gaps(actual, stride), slack_ns),
        plain=_distance(_gaps(planned, 1), _gaps(actual, 1), 0.0),
        stride=stride,
    )


def _gaps(times: NDArray[np.int64], stride: int) -> NDArray[Any]:
    gaps = times[stride:] - times[:-stride]
    gaps.sort()
    return gaps


def ascending(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """The times in order; the same array, without a copy of millions, where they already are."""
    return times if bool(np.all(times[1:] >= times[:-1])) else np.sort(times)


def _distance(a: NDArray[Any], b: NDArray[Any], slack: float) -> float:
    """Both directions of the supremum; the arrays are sorted."""

    def above(f: NDArray[Any], g: NDArray[Any]) -> float:
        highest = 0.0
        for at in range(0, len(f), _PIECE):  # piece by piece: millions of gaps take no memory for it
            part = f[at : at + _PIECE]
            # F at its own points, ties settled by the last of them.
            mine = np.searchsorted(f, part, "right") / len(f)
            highest = max(highest, float(np.max(mine - np.searchsorted(g, part + slack, "right") / len(g))))
        return highest

    return max(above(a, b), above(b, a))
