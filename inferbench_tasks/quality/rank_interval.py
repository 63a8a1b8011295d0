"""The interval of a rank correlation: Fisher's z, with the wider of two errors.

On the scale atanh(rho), with n pairs:

* the error of normal pairs, sqrt((1 + rho^2 / 2) / (n - 3)), normal quantile (D. G. Bonett, T. A. Wright, "Sample size
  requirements for estimating Pearson, Kendall and Spearman correlations", Psychometrika 65, 2000);
* that of these pairs themselves, the root of the summed squares of their influences over n (1 - rho^2), Student's
  quantile with n - 2 degrees of freedom (influences: C. Croux, C. Dehon, "Influence functions of the Spearman and
  Kendall correlation measures", 2010). Pairs that are ``chained``, each sharing a sample with the next one in a ring,
  have twice the products of neighbours' influences beside them, where these are positive.

Simulated, of 10 to 50 pairs, 95 to 98% of the intervals held the true value of normal pairs (rho 0 to 0.95), 94 to 98%
of heavy-tailed ones and of ones with an uneven scatter, 94 to 99% of chained cosines of vectors; ten pairs have the
most. The first error alone held 85% (t with 3 degrees, rho 0.92, 50 pairs; 94% so), percentiles and BCa intervals of
the bootstrap 92 to 99%. Of two classes (7 to 50% in one) against scores, 20 to 100 pairs, 94 to 100% did; most where
the classes are told apart nearly always.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from inferbench_tasks.quality.base import CONFIDENCE, Quality
from inferbench_tasks.quality.ranks import ranks, spearman

#: Of fewer pairs no interval is shown.
FEWEST_PAIRS = 10
METHOD = "Fisher's z, the wider of Bonett and Wright's error and the pairs' own"


def of_ranks(one: NDArray[np.float64], other: NDArray[np.float64], *, chained: bool = False) -> Quality:
    """Spearman's rho with its interval; none of fewer than ten pairs, and where all are in one order or its reverse:
    they tell nothing of others that are not. NaN where all values of one side are equal.
    """
    rho, pairs = spearman(one, other), len(one)
    if pairs < FEWEST_PAIRS:
        return Quality(rho, method=f"no interval: fewer than {FEWEST_PAIRS} samples")
    if not abs(rho) < 1 - 1e-12:
        return Quality(rho, method="no interval: all samples alike tell nothing of others")
    tail = (1 + CONFIDENCE) / 2
    normal = float(ndtri(tail)) * math.sqrt((1 + rho**2 / 2) / (pairs - 3))
    own = float(stdtrit(pairs - 2, tail)) * _error(one, other, chained=chained) / (1 - rho**2)
    half, middle = max(normal, own), math.atanh(rho)
    return Quality(rho, math.tanh(middle - half), math.tanh(middle + half), METHOD)


def _error(one: NDArray[np.float64], other: NDArray[np.float64], *, chained: bool) -> float:
    """Standard error of rho by the influence of each pair."""
    influence = influences(one, other)
    squares = float(influence @ influence)
    if chained:
        squares += max(0.0, 2 * float(influence @ np.roll(influence, 1)))
    return math.sqrt(squares) / len(influence)


def influences(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each pair what rho gains per share of such pairs, also where values are tied; zero on average.

    Rho is cov(u, v) / sqrt(var(u) var(v)) of mid-ranks as shares, (rank - 1/2) / n: their covariance and, with ties,
    their variances depend on how often each pair is met. Without ties the variances do not.
    """
    u, v = ((ranks(values) - 0.5) / len(values) for values in (one, other))
    var_u, var_v = float(u.var()), float(v.var())
    rho = float(np.mean((u - u.mean()) * (v - v.mean()))) / math.sqrt(var_u * var_v)
    own = (_moment(u, u) / var_u + _moment(v, v) / var_v) / 2
    found: NDArray[np.float64] = _moment(u, v) / math.sqrt(var_u * var_v) - rho * own
    return found


def _moment(u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
    """The influences on the mean of u v: u v + mean of v over larger u + mean of u over larger v, less the mean."""
    found = u * v + _beyond(u, v) + _beyond(v, u)
    centred: NDArray[np.float64] = found - found.mean()
    return centred


def _beyond(by: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each the sum of the values at larger ``by``, and half of those at the same (its own too), over all."""
    order = np.argsort(by, kind="stable")
    ascending = by[order]
    before = np.concatenate([[0.0], np.cumsum(values[order])])
    smaller, up_to = (before[np.searchsorted(ascending, by, side)] for side in ("left", "right"))
    beyond: NDArray[np.float64] = (before[-1] - (smaller + up_to) / 2) / len(by)
    return beyond
