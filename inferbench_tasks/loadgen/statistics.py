"""Percentiles that are exact or absent, and how sure they are.

A percentile is a sample (``inverted_cdf``), never an interpolation, and ``None`` where too few samples
support it. Its interval comes from order statistics: of all samples where requests are independent of each
other, of as many as its exceedances are worth where they are not, as behind a queue or in a stall.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inferbench_tasks.loadgen.exceedances import Spread, spread_of, spread_of_clusters

#: Percentile -> the samples it needs: MLPerf LoadGen's early stopping at 99% confidence, see ``floor``.
FLOORS = {0.5: 11, 0.9: 64, 0.95: 130, 0.99: 662, 0.999: 6636}
NAMES = {0.5: "p50", 0.9: "p90", 0.95: "p95", 0.99: "p99", 0.999: "p999"}

#: Effective samples beyond a percentile, on its rarer side, that an interval of dependent requests needs.
_MIN_EFFECTIVE_TAIL = 10.0

#: Of the share of requests beyond a percentile, how much may have failed: the rest then is the tail to within a tenth.
FAILED_OF_TAIL = 0.1

Method = Literal["order_statistics", "exceedances", "clusters"]


def floor(quantile: float, confidence: float = 0.99) -> int:
    """The fewest samples from which a percentile is reported.

    LoadGen's early stopping with one outlier allowed: the smallest n at which seeing at most one of n
    above the true percentile has probability <= 1 - confidence, q^n + n q^(n-1) (1-q) <= 1 - c.
    """
    n = 2
    while quantile**n + n * quantile ** (n - 1) * (1 - quantile) > 1 - confidence:
        n += 1
    return n


def hidden_by_failures(quantile: float, failed_ratio: float) -> bool:
    """Whether so many requests failed that a percentile of the others is not that of the requests.

    Those that failed had no answer in time and belong beyond it: with a share f of failures the percentile q of the
    others is that of rank q (1 - f) of all.
    """
    return failed_ratio > FAILED_OF_TAIL * (1 - quantile) * (1 + 1e-9)


def failures_reason(quantile: float, failed_ratio: float) -> str:
    """Why a percentile is withheld that failed requests may belong to."""
    tail = 1 - quantile
    return (
        f"{failed_ratio:.3%} of the requests failed, and the {NAMES[quantile]} is of the slowest {tail:.3g} of all (at "
        f"most {FAILED_OF_TAIL * tail:.3%} may fail): those that failed belong among them"
    )


def percentiles(
    values: ArrayLike, quantiles: Sequence[float] = tuple(FLOORS), failed_ratio: float = 0.0
) -> dict[float, float | None]:
    """Exact percentiles; None below the floor of each, and where ``hidden_by_failures``.

    ``failed_ratio``: of the requests whose good answers ``values`` are of.
    """
    array = np.asarray(values)
    floors = {q: FLOORS.get(q) or floor(q) for q in quantiles}
    reported = [q for q in quantiles if len(array) >= floors[q] and not hidden_by_failures(q, failed_ratio)]
    exact = np.quantile(array, reported, method="inverted_cdf") if reported else np.empty(0)
    values_by_quantile: dict[float, float | None] = dict.fromkeys(quantiles)
    return values_by_quantile | {q: float(value) for q, value in zip(reported, exact, strict=True)}


def autocorrelation_time(values: NDArray[Any]) -> float:
    """How many requests in a row count as one: 1 + 2 x the sum of the autocorrelations, at least 1.

    Of the ranks, so that a heavy tail doesn't hide it; summed while pairs of neighbours stay positive
    (Geyer's initial positive sequence). At most the last 2^17 values are looked at.
    """
    n = min(len(values), 1 << 17)
    if n < 16:
        return 1.0
    last = values[-n:]
    ordered = np.sort(last)
    # Equal values share a rank: in the order of time they would look like a trend.
    ranks = (np.searchsorted(ordered, last, "left") + np.searchsorted(ordered, last, "right")) / 2
    ranks -= ranks.mean()
    size = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(ranks, size)
    covariance = np.fft.irfft(spectrum * spectrum.conj(), size)[: n // 2]
    if covariance[0] <= 0:
        return 1.0
    rho = covariance / covariance[0]
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    ends = np.flatnonzero(pairs <= 2 / math.sqrt(n))  # noise of that size is no correlation
    return max(1.0, float(2 * pairs[: ends[0] if len(ends) else len(pairs)].sum() - 1))


@dataclass(frozen=True)
class Intervals:
    """95% confidence intervals by name ("mean", "p50", ...); None where the data can't bound it.

    ``method``: "order_statistics" where nothing speaks against independent requests, else "exceedances"; "clusters" of
    values that belong together.
    ``effective``: independent samples that a percentile is worth. ``reasons``: why an interval is None, in words.
    """

    method: Method
    autocorrelation_time: float
    bounds: Mapping[str, tuple[float, float] | None]
    effective: Mapping[str, float] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)


def intervals(values: NDArray[Any], quantiles: Sequence[float] = tuple(FLOORS)) -> Intervals:
    """Intervals for the mean and the percentiles of ``values``, which are in the order of time.

    A percentile lies between two samples whose ranks are binomial quantiles of its effective number of samples, which
    its own exceedances tell (``exceedances.spread_of``); of independent values that is exact. The mean's is Student's.
    """
    n = len(values)
    ordered = np.sort(values)
    spreads: dict[str, Spread] = {}
    bounds: dict[str, tuple[float, float] | None] = {"mean": None}
    reasons: dict[str, str] = {}
    if n >= 2:
        spreads["mean"] = spread_of(values)
        bounds["mean"] = _mean_interval(values, spreads["mean"])
    for q in quantiles:
        name = NAMES.get(q, f"p{100 * q:g}")
        bounds[name] = None
        if n < (FLOORS.get(q) or floor(q)):
            reasons[name] = "too few samples"
            continue
        spreads[name] = spread_of(values > ordered[math.ceil(q * n) - 1])
        bounds[name] = quantile_interval(ordered, q, spreads[name])
        if bounds[name] is None and spreads[name].reason is None:
            tail = n / spreads[name].inflation * min(q, 1 - q)
            reasons[name] = f"the slow requests come in clusters: they are worth {tail:.1f} independent ones"
    reasons |= {name: spread.reason for name, spread in spreads.items() if spread.reason is not None}
    independent = all(spread.independent for spread in spreads.values())
    return Intervals(
        "order_statistics" if independent else "exceedances",
        autocorrelation_time(values),
        bounds,
        {name: n / spread.inflation for name, spread in spreads.items() if spread.reason is None},
        reasons,
    )


def clustered_intervals(
    values: NDArray[Any], starts: NDArray[np.int64], quantiles: Sequence[float] = tuple(FLOORS)
) -> Intervals:
    """``intervals`` of values of which those of a cluster, a request for instance, resemble each other.

    ``starts``: where each cluster begins; clusters are in the order of time. Each percentile is judged by the share of
    values above it in each cluster, the mean by the values themselves.
    """
    n = len(values)
    ordered = np.sort(values)
    mean = spread_of_clusters(values, starts)
    spreads = {"mean": mean}
    bounds: dict[str, tuple[float, float] | None] = {"mean": _mean_interval(values, mean)}
    reasons: dict[str, str] = {}
    for q in quantiles:
        name = NAMES.get(q, f"p{100 * q:g}")
        bounds[name] = None
        if n < (FLOORS.get(q) or floor(q)):
            reasons[name] = "too few samples"
            continue
        spreads[name] = spread = spread_of_clusters(values > ordered[math.ceil(q * n) - 1], starts)
        if spread.reason is not None:
            continue
        tail = n / _largest(spread) * min(q, 1 - q)
        if tail >= _MIN_EFFECTIVE_TAIL:
            bounds[name] = quantile_interval(ordered, q, spread)
        if bounds[name] is None:
            reasons[name] = (
                f"values of few clusters lie beyond it: they may be worth {tail:.1f} independent ones"
            )
    reasons |= {name: spread.reason for name, spread in spreads.items() if spread.reason is not None}
    effective = {name: n / spread.inflation for name, spread in spreads.items() if spread.reason is None}
    return Intervals("clusters", autocorrelation_time(values), bounds, effective, reasons)


def _largest(spread: Spread) -> float:
    """The upper 95% bound of an inflation, by chi-squared.

    Asked of the estimate itself, whether there is enough would be answered yes where it happens to be too small.
    """
    from scipy.special import gammaincinv

    half = spread.freedom / 2
    return spread.inflation * half / float(gammaincinv(half, 0.05))


def quantile_interval(
    ordered: NDArray[Any], quantile: float, spread: Spread, confidence: float = 0.95
) -> tuple[float, float] | None:
    """``order_statistics_interval`` of as many samples as ``ordered`` is worth; None where they are too few.

    How little the spread itself is known widens it: Student's t instead of the normal law.
    """
    n = len(ordered)
    if spread.reason is not None:
        return None
    if spread.independent:
        return order_statistics_interval(ordered, quantile, confidence)
    from scipy.special import ndtr, stdtrit

    effective = n / spread.inflation
    if effective * min(quantile, 1 - quantile) < _MIN_EFFECTIVE_TAIL:
        return None
    tail = float(ndtr(stdtrit(spread.freedom, (1 - confidence) / 2)))
    low, high = _ranks(round(effective), quantile, tail)
    low, high = math.floor(low * n / round(effective)), math.ceil(high * n / round(effective))
    return None if low < 1 or high > n else (float(ordered[low - 1]), float(ordered[high - 1]))


def order_statistics_interval(
    ordered: NDArray[Any], quantile: float, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Two samples between which a percentile lies, free of any assumption on the law of the values.

    The number of samples below the percentile is binomial; None if the samples don't reach far enough.
    """
    low, high = _ranks(len(ordered), quantile, (1 - confidence) / 2)
    if low < 1 or high > len(ordered):
        return None
    return float(ordered[low - 1]), float(ordered[high - 1])


def _ranks(n: int, quantile: float, tail: float) -> tuple[int, int]:
    """The ranks, from 1, of the two samples that are beyond the percentile with probability ``tail`` each."""
    return _binomial_quantile(tail, n, quantile), _binomial_quantile(1 - tail, n, quantile) + 1


def _mean_interval(values: NDArray[Any], spread: Spread) -> tuple[float, float] | None:
    if spread.reason is not None:
        return None
    from scipy.special import stdtrit

    factor = 1.96 if spread.independent else -float(stdtrit(spread.freedom, 0.025))
    half = factor * float(values.std(ddof=1)) * math.sqrt(spread.inflation / len(values))
    mean = float(values.mean())
    return mean - half, mean + half


def _binomial_quantile(probability: float, n: int, p: float) -> int:
    """The smallest k with P(X <= k) >= probability, X binomial; ``scipy.stats`` takes a second to import."""
    from scipy.special import bdtr, bdtrik

    k = max(0, math.ceil(float(bdtrik(probability, n, p))))
    return k - 1 if k > 0 and bdtr(k - 1, n, p) >= probability else k
