"""What sessions in a row say about a change: its size, its error, and how easily chance says as much.

Sessions are weighted by the inverse of their variance (``spread``), and what the machine's level adds (``machine``) is
taken in where it agrees with the ratios. The degrees of freedom of the error are Satterthwaite's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.regression.machine import candidate_steps
from inferbench_tasks.regression.spread import Array, History, between

Indices = NDArray[np.signedinteger[Any]]
#: A change is looked for in runs of so many sessions and more; a session counts for at most so many of its standard
#: deviations there: single nights of bad luck don't make a change.
MIN_RUN, CLIP = 5, 2.5
#: Levels that say something else than the ratios by more standard deviations than that are the machine's.
AGREES = 2.0


@dataclass(frozen=True)
class Evidence:
    """``start``: the first session; ``effect``: ln ratio, with its standard ``error``; ``z``: standard normal score."""

    start: int
    effect: float
    error: float
    z: float

    @property
    def p_value(self) -> float:
        """Two-sided, of this look alone."""
        return 2 * self.tail(math.copysign(1.0, self.z))

    def tail(self, sign: float) -> float:
        """One-sided, in the direction of ``sign``."""
        from scipy.special import ndtr

        return float(ndtr(-sign * self.z))


def of_newest(history: History, count: int, before: int) -> Evidence:
    """The newest ``count`` sessions against no change; the first ``before`` say how much sessions differ."""
    start = np.array([len(history.effects) - count])
    return _judged(history, start, np.array([before]), math.inf, with_level=False)[0]


def strongest_run(history: History) -> tuple[Evidence, float] | None:
    """The run of newest sessions that differs most, and how often chance does as much in any; None if too few.

    The chance is that of the maximum of a standardised random walk over all lengths from MIN_RUN on (Siegmund 1985,
    "Sequential Analysis", chapters 4 and 10): the run was chosen for being the most different.
    """
    from scipy.stats import norm

    count = len(history.effects)
    if count < MIN_RUN:
        return None
    starts = np.arange(count - MIN_RUN + 1)
    runs = _judged(history, starts, starts, CLIP, with_level=True)
    best = max(runs, key=lambda run: abs(run.z))
    z, lengths = abs(best.z), np.arange(MIN_RUN, count + 1)
    crossings = z / 2 * norm.pdf(z) / lengths * np.exp(-0.583 * z / np.sqrt(lengths))
    return best, float(min(1.0, 2 * (norm.sf(z) + crossings.sum())))


def _judged(
    history: History, starts: Indices, before: Indices, clip: float, with_level: bool
) -> list[Evidence]:
    """The run from each of ``starts`` to the newest session; ``before``: so many first sessions say what is usual."""
    index = np.arange(len(history.effects))
    run = index[None, :] >= starts[:, None]
    excess, between_freedom = between(history, (index[None, :] < before[:, None], run))
    variance = excess[:, None] + history.variances
    weights = run / variance
    total = weights.sum(axis=1)
    share = (weights * (excess[:, None] / variance)).sum(axis=1) / total
    freedom = 1 / (share**2 / between_freedom + (1 - share) ** 2 / (history.freedom * len(index)))
    spread = np.sqrt(variance)
    bounded = (weights * np.clip(history.effects / spread, -clip, clip) * spread).sum(axis=1) / total
    effect, information = weights @ history.effects / total, total
    if with_level:
        shifts, variances = (column[starts] for column in candidate_steps(history.levels))
        agree = np.abs(shifts - effect) <= AGREES * np.sqrt(variances + 1 / total)
        extra = np.where(agree, 1 / variances, 0.0)
        information = total + extra
        effect = (total * effect + extra * shifts) / information
        bounded = (total * bounded + extra * shifts) / information
    error = np.sqrt(1 / information + history.reference**2)
    z = _normal(bounded / error, freedom)
    return [
        Evidence(int(start), float(size), float(deviation), float(score))
        for start, size, deviation, score in zip(starts, effect, error, z, strict=True)
    ]


def _normal(t: Array, freedom: Array) -> Array:
    """Student's t -> the standard normal quantile of the same probability."""
    from scipy.special import ndtri, stdtr

    score: Array = -ndtri(np.maximum(stdtr(freedom, -np.abs(t)), 1e-300)) * np.sign(t)
    return score
