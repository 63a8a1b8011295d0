"""Is a step still as the good end, or already as the bad one? Decided as soon as the pairs say it.

Wald's sequential test of two hypotheses (Wald 1945, "Sequential Tests of Statistical Hypotheses"): the likelihood
ratio of "changed" against "not changed" over all blocks of pairs decides once it passes ``1 / error`` on either side.
A wrong decision then has at most the probability ``error``, however often one looks (Ville 1939). By how much a changed
step is changed is what the ends differ by, known with an error: the likelihood is the mean over what that leaves open.

The likelihood of a block is Student's with few degrees of freedom, at the block's standard deviation: one block of bad
luck counts for little, and normal noise stays within the bound (the ratio's mean without a change is below 1). The
variance is that within pairs and between blocks, estimated from all blocks of the bisection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferbench_tasks.regression.base import Session
from inferbench_tasks.regression.power import Noise
from inferbench_tasks.regression.spread import Array

#: Of the likelihood of a block's effect: a block 5 standard deviations off counts as one of about 2.
TAILS = 4.0
#: By so many values what the ends leave open is represented.
SIZES = 15
#: The part that changes larger than the smallest have in "differs", each twice as large as the one before.
LARGER_RATIO, DOUBLINGS = 0.2, 8
#: As good as none: Student's is the normal distribution.
MOST_FREEDOM = 1e6


@dataclass(frozen=True)
class Effect:
    """ln(candidate / baseline), its standard error and the interval of a level, over ``pairs`` pairs."""

    effect: float
    error: float
    low: float
    high: float
    pairs: int

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def log_likelihood_ratio(
    blocks: Sequence[Session], sizes: Array, noise: Noise, weights: Array | None = None
) -> float:
    """Of an effect of one of ``sizes`` (ln ratio; equally likely without ``weights``, which sum to 1) against none."""
    from scipy.special import logsumexp

    effects, variances = columns(blocks, noise)
    none = np.log1p(effects**2 / (TAILS * variances)).sum()
    changed = np.log1p((effects - sizes[:, None]) ** 2 / (TAILS * variances)).sum(axis=1)
    shares = np.full(len(sizes), 1 / len(sizes)) if weights is None else weights
    return float(logsumexp((TAILS + 1) / 2 * (none - changed), b=shares))


def differ(blocks: Sequence[Session], smallest: float, noise: Noise, error: float) -> bool | None:
    """Whether two steps differ by ``smallest`` (ln ratio) or more, in either direction; None: not decided yet.

    "More" has a part in the likelihood: to that of ``smallest`` alone, whose tails are wide, a change many times as
    large says hardly more than one of its own size.
    """
    larger = smallest * 2.0 ** np.arange(1, DOUBLINGS + 1)
    sizes = np.concatenate(([smallest], larger))
    weights = np.concatenate(([1 - LARGER_RATIO], np.full(DOUBLINGS, LARGER_RATIO / DOUBLINGS)))
    bound = math.log(1 / error)
    differing = max(log_likelihood_ratio(blocks, sign * sizes, noise, weights) for sign in (1.0, -1.0))
    if differing >= bound + math.log(2):  # of two directions one was chosen
        return True
    alike = max(log_likelihood_ratio(blocks, np.array([sign * smallest]), noise) for sign in (1.0, -1.0))
    return False if alike <= -bound else None


def is_changed(blocks: Sequence[Session], sizes: Array, noise: Noise, error: float) -> bool | None:
    """Whether the candidate is changed by one of ``sizes`` (ln ratio) or not at all; None: not decided yet."""
    ratio = log_likelihood_ratio(blocks, sizes, noise)
    return None if abs(ratio) < math.log(1 / error) else ratio > 0


def sizes_of(ends: Effect, freedom: float) -> Array:
    """What a changed step may be changed by: what the ends leave open, but at least half of what they seem to show."""
    from scipy.special import stdtrit

    shares = (np.arange(SIZES) + 0.5) / SIZES
    sizes = abs(ends.effect) + ends.error * stdtrit(min(freedom, MOST_FREEDOM), shares)
    return np.asarray(np.copysign(np.maximum(sizes, abs(ends.effect) / 2), ends.effect), float)


def estimate(blocks: Sequence[Session], noise: Noise, level: float) -> Effect:
    """The effect with its two-sided interval of ``level`` (0.95), Student's; of at least one block.

    A block counts for at most what one at two of its standard deviations from the median does (Huber 1964).
    """
    from scipy.special import stdtrit

    effects, variances = columns(blocks, noise)
    middle, spread = float(np.median(effects)), np.sqrt(variances)
    bounded = np.clip(effects, middle - 2 * spread, middle + 2 * spread)
    weights = 1 / variances
    effect = float(weights @ bounded / weights.sum())
    error = float(1 / math.sqrt(weights.sum()))
    half = error * float(stdtrit(min(noise.freedom, MOST_FREEDOM), (1 + level) / 2))
    return Effect(effect, error, effect - half, effect + half, sum(len(b.log_ratios()) for b in blocks))


def columns(blocks: Sequence[Session], noise: Noise) -> tuple[Array, Array]:
    """Each block's effect and its variance."""
    pairs = np.array([len(block.log_ratios()) for block in blocks], float)
    return np.array([block.effect for block in blocks]), noise.between**2 + noise.within**2 / pairs
