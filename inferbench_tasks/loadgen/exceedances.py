"""How many independent samples a percentile has: judged by when its own slow requests came.

Requests above the p99.9 may come in clusters (a stall delays all that wait) though requests in general hardly
resemble their neighbours. So each percentile is judged by its own exceedances, the series of 0 and 1 that says
which requests lie above it. The variance of their number is the spectral density of that series at frequency
zero (Heidelberger and Welch 1981 for means; Heidelberger and Lewis 1984 for quantiles), estimated as the mean power
of its first cosine transforms (Mueller 2004; Lazarus, Lewis, Stock and Watson 2018).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Fewer values than this can't be asked whether neighbours resemble each other: they count as independent.
_MIN_VALUES = 48
#: A longer series is summed up in so many bins; only its low frequencies are looked at.
_BINS = 8192
#: Frequencies that are averaged, at least and at most.
_LEAST, _MOST = 12, 512
#: The lowest frequencies, which a drift shows in, and the probability by which chance alone is taken for one.
_LOWEST, _DRIFT_LEVEL = 4, 0.005
#: The probability by which chance alone ends the widening of the band.
_WIDEN_LEVEL, _WIDEN_FACTOR = 0.003, 1.5
#: Standard errors within which an inflation counts as that of independent values.
_CHANCE = 3.0
#: Degrees of freedom that the variance must have: with fewer, a few episodes make it.
_MIN_FREEDOM, _MIN_FREEDOM_RATIO = 12.0, 0.6
#: A series that alternates strictly would have an endless number of effective samples.
_MIN_INFLATION = 0.02
#: Standard errors beyond which each cluster resembles the next.
_CHAIN = 2.0
#: The probability by which chance alone makes segments vary by more than their series says.
_CLUSTER_LEVEL = 0.01


@dataclass(frozen=True)
class Spread:
    """``inflation``: variance of a sum over what it would be of independent values; 1 where they are.

    ``freedom``: degrees of freedom of that estimate, infinite where values are independent. ``reason``: why the
    spread is not known, in words; None where it is.
    """

    inflation: float = 1.0
    freedom: float = float("inf")
    reason: str | None = None

    @property
    def independent(self) -> bool:
        """Whether nothing speaks against independent values."""
        return self.reason is None and self.freedom == float("inf")


def spread_of(series: NDArray[Any]) -> Spread:
    """The spread of the sum of a series in the order of time: exceedances, or the values themselves."""
    n = len(series)
    variance = float(series.var()) if n else 0.0
    if n < _MIN_VALUES or variance <= 0:
        return Spread()
    width = -(-n // _BINS)
    bins = n // width
    sums = np.asarray(series[: bins * width], np.float64).reshape(bins, width).sum(axis=1)
    power = _power(sums) / (width * variance)
    if _drifts(power):
        return Spread(reason="it drifts: its level changes slowly over the whole of the time")
    widest = min(_MOST, len(power) // 2)
    band = _flat_band(power, widest)
    if band < widest:  # Half of it: towards its edge the power is already another.
        band = max(_LEAST, band // 2)
    inflation = float(power[:band].mean())
    freedom = _freedom(sums, band)
    if band >= widest and abs(inflation - 1) < _CHANCE * (2 / freedom) ** 0.5:
        return Spread()
    if freedom < min(_MIN_FREEDOM, _MIN_FREEDOM_RATIO * band):
        return Spread(reason="a few episodes make most of it, and their luck is not bounded by them")
    return Spread(max(inflation, _MIN_INFLATION), freedom)


def spread_of_segments(series: NDArray[Any], starts: NDArray[np.int64]) -> Spread:
    """The spread of the sum of a series that was cut into segments, which begin at these places.

    Values before and after a cut are no neighbours, so that the series as a whole may hide how alike those of a segment
    are: where the segments' own sums vary by more than it says (a chi-squared test), as clusters they say it.
    """
    whole = spread_of(series)
    n, count = len(series), len(starts)
    variance = float(series.var()) if n else 0.0
    if whole.reason is not None or count < _LEAST or variance <= 0:
        return whole
    from scipy.special import chdtrc

    sizes = np.diff(np.append(starts, n))
    surplus = np.add.reduceat(np.asarray(series, np.float64), starts) - sizes * float(series.mean())
    inflation = float((surplus**2).sum()) * count / (count - 1) / (n * variance)
    if chdtrc(count - 1, (count - 1) * inflation / whole.inflation) >= _CLUSTER_LEVEL:
        return whole
    freedom = _freedom_of(surplus)
    if freedom < min(_MIN_FREEDOM, _MIN_FREEDOM_RATIO * count):
        return Spread(reason="a few windows make most of it, and their luck is not bounded by them")
    return Spread(inflation, freedom)


def spread_of_clusters(series: NDArray[Any], starts: NDArray[np.int64]) -> Spread:
    """The spread of the mean of values that belong together: of clusters in the order of time, which begin at these
    places and are of any size.

    The mean is a ratio of two sums over clusters, and its variance that of the clusters' surplus over it (Cochran 1977,
    6.3: R / (R - 1) x sum of squares). Neighbours among the clusters may resemble each other as requests do, in a stall
    for instance: that multiplies it. Never less than independent values have, with the few degrees of
    freedom of few clusters.
    """
    n, count = len(series), len(starts)
    variance = float(series.var()) if n else 0.0
    if count < _MIN_VALUES:
        return Spread(reason=f"fewer than {_MIN_VALUES} clusters")
    if variance <= 0:
        return Spread(reason="no value lies beyond it, or all are equal")
    sizes = np.diff(np.append(starts, n))
    surplus = np.add.reduceat(np.asarray(series, np.float64), starts) - sizes * float(series.mean())
    neighbours = spread_of(surplus)
    if neighbours.reason is not None:
        return neighbours
    along, along_freedom = _along(surplus, neighbours)
    freedom = min(_freedom_of(surplus), count - 1.0, along_freedom)
    if freedom < min(_MIN_FREEDOM, _MIN_FREEDOM_RATIO * count):
        return Spread(reason="a few clusters make most of it, and their luck is not bounded by them")
    inflation = float((surplus**2).sum()) * count / (count - 1) / (n * variance)
    return Spread(max(inflation * along, 1.0), freedom)


def _along(surplus: NDArray[np.float64], neighbours: Spread) -> tuple[float, float]:
    """How neighbours among clusters inflate the variance, 1 or more, and its degrees of freedom.

    A hundred clusters are too few for their frequencies to tell; the correlation r of each with the next tells sooner,
    and a chain of that correlation inflates by (1 + r) / (1 - r).
    """
    squares = float((surplus**2).sum())
    following = float((surplus[1:] * surplus[:-1]).sum()) / squares if squares else 0.0
    if following <= _CHAIN / len(surplus) ** 0.5:
        return max(1.0, neighbours.inflation), neighbours.freedom
    chain = (1 + following) / max(1 - following, 1e-3)
    return max(neighbours.inflation, chain), min(neighbours.freedom, len(surplus) / chain)


def _power(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Squared cosine transforms from the lowest frequency up: each has the mean f(0) where f is flat."""
    from scipy.fft import dct

    transforms = dct(sums - sums.mean(), type=2, norm="ortho")[1:]
    return np.asarray(transforms * transforms)


def _drifts(power: NDArray[np.float64]) -> bool:
    """Whether the lowest frequencies have more power than the next, by an F test."""
    from scipy.special import fdtrc

    # 1 is the power of independent values: what is less than theirs is no drift that matters.
    rest = max(float(power[_LOWEST:_LEAST].mean()), 1.0)
    ratio = float(power[:_LOWEST].mean()) / rest
    return bool(fdtrc(_LOWEST, _LEAST - _LOWEST, ratio) < _DRIFT_LEVEL)


def _flat_band(power: NDArray[np.float64], widest: int) -> int:
    """How many frequencies from zero on have one power, as far as F tests can tell."""
    from scipy.special import fdtrc

    band = min(_LEAST, widest)
    while band < widest:
        wider = min(widest, int(band * _WIDEN_FACTOR))
        more = float(power[band:wider].mean())
        if more <= 0:
            break
        probability = float(fdtrc(band, wider - band, float(power[:band].mean()) / more))
        if 2 * min(probability, 1 - probability) < _WIDEN_LEVEL:
            break
        band = wider
    return band


def _freedom(sums: NDArray[np.float64], band: int) -> float:
    """Degrees of freedom of the variance: ``band`` of Gaussian blocks, fewer where few blocks make it.

    The variance of a variance is (kurtosis - 1) / blocks; of chi-squared with v degrees it is 2 / v.
    """
    length = len(sums) // band
    blocks = sums[: band * length].reshape(band, length).sum(axis=1)
    return _freedom_of(blocks - blocks.mean())


def _freedom_of(deviations: NDArray[np.float64]) -> float:
    """The same, from the blocks' deviations from what they should be."""
    squares = deviations**2
    fourth = float((squares * squares).sum())
    if fourth <= 0:
        return float(len(deviations))
    effective = float(squares.sum()) ** 2 / fourth
    return min(float(len(deviations)), 2 / max(1 / effective - 1 / len(deviations), 1e-9))
