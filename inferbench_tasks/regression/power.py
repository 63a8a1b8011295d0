"""What a series could see at all: its minimum detectable effect, and the runs that a wanted one takes.

Two variances: between the paired ratios of one session (more runs help), and between sessions of
unchanged code (only more sessions help; a quorum inside one session confirms noise). With a two-sided level
alpha and power 1 - beta:

    MDE = (z[1 - alpha/2] + z[1 - beta]) * sqrt((between^2 + within^2 / pairs) / sessions)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from inferbench_tasks.regression.base import Session

ALPHA, POWER = 0.01, 0.8
MAX_PAIRS = 100


@dataclass(frozen=True)
class Noise:
    """Standard deviations of ln ratios: ``within`` sessions, of a pair; ``between`` sessions, of a session's."""

    within: float
    between: float
    sessions: int

    def of_session(self, pairs: int) -> float:
        """The standard error of one session's effect."""
        return math.sqrt(self.between**2 + self.within**2 / max(pairs, 1))


def noise_of(sessions: Sequence[Session]) -> Noise | None:
    """The noise of sessions of one state of the code; None with fewer than two pairs in any.

    ``between`` is what the sessions' effects vary beyond what their own pairs explain; it is zero
    where they vary less, and unknown (zero) with fewer than two sessions. Squares, not medians: the
    rare night in which one side was unlucky is what a false alarm is made of.
    """
    spreads = []
    for session in sessions:
        logs = np.asarray(session.log_ratios())
        if len(logs) >= 2:
            spreads.append((float(logs.var(ddof=1)), len(logs)))
    if not spreads:
        return None
    within = math.sqrt(sum(v * (n - 1) for v, n in spreads) / sum(n - 1 for _, n in spreads))
    between = 0.0
    if len(sessions) >= 2:
        explained = within**2 * float(np.mean([1 / n for _, n in spreads]))
        between = math.sqrt(max(0.0, float(np.var([s.effect for s in sessions], ddof=1)) - explained))
    return Noise(within, between, len(sessions))


def minimum_detectable_effect(
    noise: Noise, pairs: int, sessions: int = 1, alpha: float = ALPHA, power: float = POWER
) -> float:
    """The smallest |ln ratio| found with that power, see the module."""
    return _quantiles(alpha, power) * noise.of_session(pairs) / math.sqrt(sessions)


def pairs_needed(
    noise: Noise, effect: float, sessions: int = 1, alpha: float = ALPHA, power: float = POWER
) -> int | None:
    """Pairs per session that find an effect (ln ratio); None if no number of pairs in so many sessions does."""
    room = (effect / _quantiles(alpha, power)) ** 2 * sessions - noise.between**2
    if room <= 0:
        return None
    needed = max(2, math.ceil(noise.within**2 / room))
    return needed if needed <= MAX_PAIRS else None


def _quantiles(alpha: float, power: float) -> float:
    from scipy.stats import norm

    return float(norm.ppf(1 - alpha / 2) + norm.ppf(power))
