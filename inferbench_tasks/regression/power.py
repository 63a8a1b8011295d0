"""What a series could see at all: its minimum detectable effect, and the runs that a wanted one takes.

Two variances: between the paired ratios of one session (more runs help), and between sessions of
unchanged code (only more sessions help; a quorum inside one session confirms noise). With a two-sided level
alpha and power 1 - beta:

    MDE = (t[1 - alpha/2] + t[1 - beta]) * sqrt((between^2 + within^2 / pairs) / sessions)

It is that of the test which raises suspicions (``evidence.of_newest`` of one session at ALPHA), with Student's
quantiles for the sessions that the noise is known from.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferbench_tasks.regression.base import Session
from inferbench_tasks.regression.spread import History, between

ALPHA, POWER = 0.01, 0.8
MAX_PAIRS = 100


@dataclass(frozen=True)
class Noise:
    """Standard deviations of ln ratios: ``within`` sessions, of a pair; ``between`` sessions, of a session's.

    ``freedom``: the degrees of freedom of a session's error, by how many sessions are known.
    """

    within: float
    between: float
    sessions: int
    freedom: float = math.inf

    def of_session(self, pairs: int) -> float:
        """The standard error of one session's effect."""
        return math.sqrt(self.between**2 + self.within**2 / max(pairs, 1))


def noise_of(*levels: Sequence[Session]) -> Noise:
    """The noise of sessions of unchanged code, in groups of one level each; at least one session."""
    sessions = [session for level in levels for session in level]
    history = History.of(sessions)
    borders = np.cumsum([0, *(len(level) for level in levels)])
    index = np.arange(len(sessions))
    masks = [((index >= a) & (index < b))[None, :] for a, b in itertools.pairwise(borders)]
    variance, between_freedom = (float(column[0]) for column in between(history, masks))
    within = float(np.mean(history.variances * history.pairs))
    share = variance / (variance + within / float(np.median(history.pairs)))
    freedom = 1 / (share**2 / between_freedom + (1 - share) ** 2 / (history.freedom * len(sessions)))
    return Noise(math.sqrt(within), math.sqrt(variance), len(sessions), freedom)


def minimum_detectable_effect(
    noise: Noise, pairs: int, sessions: int = 1, alpha: float = ALPHA, power: float = POWER
) -> float:
    """The smallest |ln ratio| found with that power, see the module."""
    return _quantiles(alpha, power, noise.freedom) * noise.of_session(pairs) / math.sqrt(sessions)


def pairs_needed(
    noise: Noise, effect: float, sessions: int = 1, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """Pairs per session that find an effect (ln ratio); None if no number of pairs in so many sessions does."""
    room = (effect / _quantiles(alpha, power, noise.freedom)) ** 2 * sessions - noise.between**2
    if room <= 0:
        return None
    needed = max(2, math.ceil(noise.within**2 / room))
    return needed if needed <= MAX_PAIRS else None


def _quantiles(alpha: float, power: float, freedom: float) -> float:
    from scipy.stats import norm, t

    quantile = norm.ppf if math.isinf(freedom) else lambda p: t.ppf(p, freedom)
    return float(quantile(1 - alpha / 2) + quantile(power))
