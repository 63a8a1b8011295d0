"""The night's pair: by how much the candidate differs from the baseline, and whether that can be chance.

Two answers, made to fail differently: the rank test of Mann and Whitney on all runs, and a bootstrap of the
paired ratios (pairs ran side by side, so what drifts during the night cancels).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Below this many pairs the rank test can't reach 1% at all (5 + 5: 2/252), so nothing is decided.
MIN_PAIRS = 5
RESAMPLES = 2000


@dataclass(frozen=True)
class Pair:
    """``effect``: ln(candidate / baseline) with its bootstrap interval; ``p_value``: two-sided rank test."""

    effect: float
    low: float
    high: float
    p_value: float
    pairs: int


def effect(log_ratios: Sequence[float]) -> float:
    """The Hodges-Lehmann estimate: the median of all means of two. As robust as a median, nearly as
    sharp as a mean (Hodges and Lehmann 1963)."""
    values = np.asarray(log_ratios, float)
    i, j = np.triu_indices(len(values))
    return float(np.median((values[i] + values[j]) / 2))


def judge_pair(baseline: Sequence[float], candidate: Sequence[float], seed: int = 1) -> Pair:
    """Compare two sides that ran in turns; figures above zero, the i-th of both form a pair."""
    n = min(len(baseline), len(candidate))
    logs = np.log(np.asarray(candidate[:n], float)) - np.log(np.asarray(baseline[:n], float))
    low, high = interval(logs, seed)
    return Pair(effect(list(logs)), low, high, mann_whitney(baseline, candidate), n)


def interval(log_ratios: NDArray[np.float64], seed: int = 1, level: float = 0.95) -> tuple[float, float]:
    """Bootstrap percentile interval of the mean of paired ln ratios, widened for the small sample.

    The percentile interval of n values is too narrow by sqrt((n-1)/n) and by normal instead of
    Student quantiles; both are put back (Hesterberg 2015, "expanded percentile").
    """
    from scipy.stats import norm, t

    n = len(log_ratios)
    if n < 2:
        return -np.inf, np.inf
    tail = (1 - level) / 2
    wide = float(norm.cdf(np.sqrt(n / (n - 1)) * t.ppf(tail, n - 1)))
    indices = np.random.default_rng(seed).integers(0, n, (RESAMPLES, n))
    low, high = np.quantile(log_ratios[indices].mean(axis=1), [wide, 1 - wide])
    return float(low), float(high)


def mann_whitney(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Two-sided p; exact for small samples without ties. 1.0 where a side is empty or all is equal."""
    from scipy.stats import mannwhitneyu

    if not baseline or not candidate or len({*baseline, *candidate}) == 1:
        return 1.0
    return float(mannwhitneyu(baseline, candidate, alternative="two-sided").pvalue)
