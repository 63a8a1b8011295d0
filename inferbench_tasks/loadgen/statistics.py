"""Percentiles that are exact or absent, and how sure they are.

A percentile is a sample (``inverted_cdf``), never an interpolation, and ``None`` where too few samples
support it. Its interval comes from order statistics where requests are independent of each other, and
from a block bootstrap where they are not, as behind a queue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: Percentile -> the samples it needs: MLPerf LoadGen's early stopping at 99% confidence, see ``floor``.
FLOORS = {0.5: 11, 0.9: 64, 0.95: 130, 0.99: 662, 0.999: 6636}
NAMES = {0.5: "p50", 0.9: "p90", 0.95: "p95", 0.99: "p99", 0.999: "p999"}

#: Resamples of the block bootstrap, and the seed that makes a summary the same each time it is derived.
_RESAMPLES = 400
_SEED = 20_111
#: Fewer blocks than this say nothing about their own spread: there is no interval then.
_MIN_BLOCKS = 20
_MAX_BLOCKS = 256
#: A percentile's tail that lies in fewer blocks than this is a few episodes: their luck is not bounded by it.
_MIN_TAIL_BLOCKS = 20
#: Candidates for an interval's bounds, per percentile.
_GRID = 161

Method = Literal["order_statistics", "block_bootstrap"]


def floor(quantile: float, confidence: float = 0.99) -> int:
    """The fewest samples from which a percentile is reported.

    LoadGen's early stopping with one outlier allowed: the smallest n at which seeing at most one of n
    above the true percentile has probability <= 1 - confidence, q^n + n q^(n-1) (1-q) <= 1 - c.
    """
    n = 2
    while quantile**n + n * quantile ** (n - 1) * (1 - quantile) > 1 - confidence:
        n += 1
    return n


def percentiles(values: ArrayLike, quantiles: Sequence[float] = tuple(FLOORS)) -> dict[float, float | None]:
    """Exact percentiles; None below the floor of each."""
    array = np.asarray(values)
    floors = {q: FLOORS.get(q) or floor(q) for q in quantiles}
    reported = [q for q in quantiles if len(array) >= floors[q]]
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
    """95% confidence intervals by name ("mean", "p50", ...); None where the data can't bound it."""

    method: Method
    autocorrelation_time: float
    bounds: Mapping[str, tuple[float, float] | None]


def intervals(values: NDArray[Any], quantiles: Sequence[float] = tuple(FLOORS)) -> Intervals:
    """Intervals for the mean and the percentiles of ``values``, which are in the order of time.

    Independent values: order statistics (exact for percentiles), the normal law for the mean. Otherwise a
    block bootstrap over blocks of at least ten autocorrelation times.
    """
    tau = autocorrelation_time(values)
    names = ["mean", *(NAMES.get(q, f"p{100 * q:g}") for q in quantiles)]
    if len(values) < 2:
        return Intervals("order_statistics", tau, dict.fromkeys(names))
    ordered = np.sort(values)
    reported = [q for q in quantiles if len(values) >= (FLOORS.get(q) or floor(q))]
    bounds: dict[str, tuple[float, float] | None] = dict.fromkeys(names)
    if tau > 1.5:
        resampled = _block_bootstrap(values, ordered, reported, tau)
        return Intervals("block_bootstrap", tau, bounds | resampled)
    half = 1.96 * float(values.std(ddof=1)) / math.sqrt(len(values))
    mean = float(values.mean())
    bounds["mean"] = (mean - half, mean + half)
    for q in reported:
        bounds[NAMES.get(q, f"p{100 * q:g}")] = order_statistics_interval(ordered, q)
    return Intervals("order_statistics", tau, bounds)


def order_statistics_interval(
    ordered: NDArray[Any], quantile: float, confidence: float = 0.95
) -> tuple[float, float] | None:
    """Two samples between which a percentile lies, free of any assumption on the law of the values.

    The number of samples below the percentile is binomial; None if the samples don't reach far enough.
    """
    n = len(ordered)
    tail = (1 - confidence) / 2
    low = _binomial_quantile(tail, n, quantile)
    high = _binomial_quantile(1 - tail, n, quantile) + 1
    if low < 1 or high > n:
        return None
    return float(ordered[low - 1]), float(ordered[high - 1])


def _binomial_quantile(probability: float, n: int, p: float) -> int:
    """The smallest k with P(X <= k) >= probability, X binomial; ``scipy.stats`` takes a second to import."""
    from scipy.special import bdtr, bdtrik

    k = max(0, math.ceil(float(bdtrik(probability, n, p))))
    return k - 1 if k > 0 and bdtr(k - 1, n, p) >= probability else k


def _block_bootstrap(
    values: NDArray[Any], ordered: NDArray[Any], quantiles: Sequence[float], tau: float
) -> dict[str, tuple[float, float] | None]:
    """Bounds from resampling blocks of neighbours; {} if there are too few blocks.

    A resample's ECDF is the weighted sum of the blocks' own, so each block is reduced to its counts below
    some candidate values around each percentile: a million samples take a fraction of a second.
    """
    n = len(values)
    blocks = min(_MAX_BLOCKS, math.isqrt(n), int(n / (10 * tau)))
    if blocks < _MIN_BLOCKS:
        return {}
    length = n // blocks
    used = values[: blocks * length]
    rng = np.random.default_rng(_SEED)
    weights = rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=_RESAMPLES).astype(float)
    means = weights @ used.reshape(blocks, length).mean(axis=1) / blocks
    bounds: dict[str, tuple[float, float] | None] = {"mean": _central(means)}
    if not quantiles:
        return bounds
    ranks = [_candidate_ranks(n, q, tau) for q in quantiles]
    candidates = np.unique(ordered[np.unique(np.concatenate(ranks))])
    blockwise = used.reshape(blocks, length)
    width = len(candidates) + 1
    counts = np.empty((blocks, width))
    for block, row in enumerate(blockwise):  # block by block: millions of values take no memory for it
        # The first candidate that is >= the value.
        counts[block] = np.bincount(np.searchsorted(candidates, row), minlength=width)
    below = weights @ np.cumsum(counts, axis=1)[:, :-1]  # resampled values <= each candidate
    for q in quantiles:
        above = blockwise > ordered[math.ceil(q * n) - 1]
        if min(above.any(axis=1).sum(), (~above).any(axis=1).sum()) < _MIN_TAIL_BLOCKS:
            continue
        reached = below >= q * blocks * length
        inside = reached.any(axis=1)
        if inside.mean() >= 0.99:
            first = np.argmax(reached, axis=1)
            bounds[NAMES.get(q, f"p{100 * q:g}")] = _central(candidates[first[inside]])
    return bounds


def _candidate_ranks(n: int, quantile: float, tau: float) -> NDArray[np.int64]:
    """Ranks around a percentile's own, out to eight standard errors of a correlated sample."""
    spread = 8 * math.sqrt(quantile * (1 - quantile) * n * tau) + 8
    ranks = np.linspace(quantile * n - spread, quantile * n + spread, _GRID)
    return np.clip(np.rint(ranks), 0, n - 1).astype(np.int64)


def _central(resampled: NDArray[Any]) -> tuple[float, float]:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(low), float(high)
