"""How sure an order of configurations is, from few runs of each.

The spread between runs of one configuration is estimated as for many small samples (Smyth, "Linear models and
empirical Bayes methods", 2004): a configuration's own runs count, and so do those of all others, and what a quiet
machine usually shows (``DRIFT_RATIO``) counts like ``PRIOR_RUNS`` runs more. A difference of two means is then
judged by Student's t with Welch's degrees of freedom. Spreads are shares of the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

#: Standard deviation between two runs of the same thing, as a share of the figure: what a quiet machine shows.
DRIFT_RATIO = 0.05
#: So many runs' worth that guess counts, and so many the other configurations' spread counts for one of them.
PRIOR_RUNS = 3
#: More runs of both than this are not worth proposing.
MOST_RUNS = 20


@dataclass(frozen=True)
class Estimate:
    """A mean over ``runs``; ``sd`` is of one run, with so many degrees of freedom."""

    mean: float
    sd: float
    runs: int
    freedom: float

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.sd / math.sqrt(self.runs)

    def interval95(self) -> list[float]:
        """The mean's, by Student's t."""
        from scipy.stats import t

        half = float(t.ppf(0.975, self.freedom)) * self.error
        return [self.mean - half, self.mean + half]


def pooled_ratio(samples: Sequence[Sequence[float]]) -> float:
    """The spread that all configurations' runs and the prior show together."""
    import numpy as np

    squares, freedom = PRIOR_RUNS * DRIFT_RATIO**2, float(PRIOR_RUNS)
    several = [values for values in samples if len(values) > 1]
    if several:
        runs = np.array([len(values) for values in several])
        values = np.fromiter(chain.from_iterable(several), float, count=int(runs.sum()))
        means = np.add.reduceat(values, np.concatenate(([0], np.cumsum(runs)[:-1]))) / runs
        counts = means != 0
        values, of_each = values[np.repeat(counts, runs)], np.repeat(means[counts], runs[counts])
        squares += float(((values / of_each - 1) ** 2).sum())
        freedom += float((runs[counts] - 1).sum())
    return math.sqrt(squares / freedom)


def estimate(values: Sequence[float], pooled: float, within_sd: float = 0.0) -> Estimate:
    """``pooled``: see above; ``within_sd``: what a single run knows of its own error, a floor of the spread."""
    mean = sum(values) / len(values)
    own = sum((value - mean) ** 2 for value in values)
    freedom = PRIOR_RUNS + len(values) - 1
    sd = math.sqrt((PRIOR_RUNS * (pooled * mean) ** 2 + own) / freedom)
    return Estimate(mean, max(sd, within_sd), len(values), freedom)


def greater(a: Estimate, b: Estimate) -> float:
    """The probability that ``a``'s true mean is above ``b``'s."""
    return above(a.mean - b.mean, math.hypot(a.error, b.error), _welch(a, b))


def above(difference: float, error: float, freedom: float) -> float:
    """The probability that a quantity with that estimate and standard error is above 0."""
    from scipy.stats import t

    if error == 0:
        return 0.5 if difference == 0 else float(difference > 0)
    return float(t.cdf(difference / error, freedom))


def runs_to_settle(a: Estimate, b: Estimate, probability: float) -> int | None:
    """How many more runs of both would make the order that sure, if the means stay; None above ``MOST_RUNS``."""
    difference = abs(a.mean - b.mean)
    for more in range(1, MOST_RUNS + 1):
        grown = [Estimate(e.mean, e.sd, e.runs + more, e.freedom + more) for e in (a, b)]
        if above(difference, math.hypot(*(e.error for e in grown)), _welch(*grown)) >= probability:
            return more
    return None


def _welch(a: Estimate, b: Estimate) -> float:
    square_a, square_b = a.error**2, b.error**2
    below = square_a**2 / a.freedom + square_b**2 / b.freedom
    return (square_a + square_b) ** 2 / below if below else a.freedom + b.freedom
