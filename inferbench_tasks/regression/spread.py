"""By how much the sessions of unchanged code differ: within their pairs, and from one to another.

* *Within*: the variance of a session's ln ratios differs from night to night. What few pairs say of it is drawn to what
  nights usually have, by as much as nights have been alike (moderated variances, Smyth 2004, "Linear Models and
  Empirical Bayes Methods for Assessing Differential Expression", section 6.2): a calm night weighs more than a
  disturbed one, and eight pairs that happen to be alike are not taken for calm.
* *Between*: what the effects vary beyond that (method of moments, DerSimonian and Laird 1986). No number of pairs takes
  it out. Drawn to a prior as long as there are few sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.regression.base import Session

Array = NDArray[np.float64]
#: What sessions are taken to differ by until a series has shown it (standard deviation, ln ratio), for how many
#: sessions that counts, and as how well known (degrees of freedom).
PRIOR_BETWEEN, PRIOR_SESSIONS, PRIOR_FREEDOM = 0.015, 0.5, 4.0
#: With fewer sessions it can't be told how alike their variances are: until then the usual one has PRIOR_FREEDOM.
MIN_VARIANCES = 5
#: As good as none: variances all alike, and the smallest of them (figures that are equal to the last digit).
ALIKE, SMALLEST = 1e6, 1e-12


@dataclass(frozen=True)
class History:
    """Sessions as columns. ``effects``: ln ratios; ``variances``: of each effect, from its pairs; ``freedom`` of these.

    ``levels``: ln of the figure, the mean of both sides. ``pairs``: of each session. ``reference``: the standard
    error of what the effects are told from, zero for the baseline itself.
    """

    effects: Array
    variances: Array
    freedom: float
    levels: Array
    pairs: Array
    reference: float = 0.0

    @classmethod
    def of(cls, sessions: Sequence[Session], reference: float = 0.0) -> History:
        """Of at least one session; each has at least two pairs."""
        pairs = np.array([min(len(s.baseline), len(s.candidate)) for s in sessions], float)
        raw = np.array([session.variance for session in sessions])
        variances, freedom = moderated(raw, pairs - 1)
        effects = np.array([session.effect for session in sessions])
        levels = np.array([session.level for session in sessions]) + effects / 2
        return cls(effects, variances / pairs, freedom, levels, pairs, reference)


def moderated(raw: Array, own: Array) -> tuple[Array, float]:
    """Variances, of ``own`` degrees of freedom each, drawn to the usual one; and the freedom of the result."""
    from scipy.special import digamma, polygamma

    raw = np.maximum(raw, SMALLEST)
    usual, freedom = float(np.average(raw, weights=own)), PRIOR_FREEDOM
    if len(raw) >= MIN_VARIANCES:
        logs = np.log(raw) - digamma(own / 2) + np.log(own / 2)
        excess = float(np.var(logs, ddof=1) - np.mean(polygamma(1, own / 2)))
        freedom = min(2 * _inverse_trigamma(excess), ALIKE) if excess > 0 else ALIKE
        usual = float(np.exp(logs.mean() + digamma(freedom / 2) - np.log(freedom / 2)))
    return (freedom * usual + own * raw) / (freedom + own), float(np.mean(freedom + own))


def _inverse_trigamma(value: float) -> float:
    """By Newton's method on 1 / trigamma, which is convex (Smyth 2004, appendix)."""
    from scipy.special import polygamma

    x = 0.5 + 1 / value
    for _ in range(20):
        trigamma = polygamma(1, x)
        step = trigamma * (1 - trigamma / value) / polygamma(2, x)
        x += step
        if abs(step) < 1e-8 * x:
            break
    return float(x)


def between(history: History, parts: Sequence[NDArray[np.bool_]]) -> tuple[Array, Array]:
    """The variance between sessions around each part's own mean, and its degrees of freedom.

    A part is a mask, cases x sessions: many cuts of one history are looked at together.
    """
    effects, weights = history.effects, 1 / history.variances
    cases = len(parts[0])
    spread, scale, freedom = np.zeros(cases), np.zeros(cases), np.zeros(cases)
    for mask in parts:
        part = mask * weights
        total = np.maximum(part.sum(axis=1), np.finfo(float).tiny)
        mean = part @ effects / total
        several = mask.sum(axis=1) >= 2
        spread += several * (part * (effects - mean[:, None]) ** 2).sum(axis=1)
        scale += several * (total - part @ weights / total)
        freedom += several * (mask.sum(axis=1) - 1)
    excess = np.maximum(0.0, spread - freedom) / np.where(scale > 0, scale, 1.0)
    variance = (PRIOR_SESSIONS * PRIOR_BETWEEN**2 + freedom * excess) / (PRIOR_SESSIONS + freedom)
    return variance, PRIOR_FREEDOM + freedom
