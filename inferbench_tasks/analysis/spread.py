"""How much a figure differs from run to run of one configuration, and on which scale that is alike for all of them.

A latency of 10 ms and one of 100 ms differ by the same share of themselves: the scale is the figure. A share p of a
whole has a complement 1 - p, which is known exactly as well as p: whatever is said of one holds of the other. So a
share's standard deviation is s p (1 - p), the same for both: the variance function s^2 p^2 (1 - p)^2 of Wedderburn
("Quasi-likelihood functions, generalized linear models, and the Gauss-Newton method", Biometrika 61, 1974), which is s
from run to run on the scale of ln(p / (1 - p)), since d ln(p / (1 - p)) = dp / (p (1 - p)). Of rare events it is s p,
as of any other figure. At p = 0 and at p = 1 nothing is left of it: there only the number of requests tells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain

#: Standard deviation between two runs of the same thing, on that scale: what a quiet machine shows.
DRIFT_RATIO = 0.05
#: So many runs' worth that guess counts, and so many the other configurations' spread counts for one of them.
PRIOR_RUNS = 3


def scale_of(mean: float, *, share: bool = False) -> float:
    """What a spread is told as a multiple of, see above; ``share``: whether it is a part of a whole."""
    return mean * (1 - mean) if share and 0 <= mean <= 1 else abs(mean)


def pooled_ratio(samples: Sequence[Sequence[float]], *, share: bool = False) -> float:
    """The spread s that all configurations' runs and the prior show together.

    Of shares all squares are summed before they are divided: a share of few events differs from run to run mostly by
    their number, and would otherwise tell of the others what holds of itself alone.
    """
    import numpy as np

    squares, freedom = PRIOR_RUNS * DRIFT_RATIO**2, float(PRIOR_RUNS)
    several = [values for values in samples if len(values) > 1]
    if several:
        runs = np.array([len(values) for values in several])
        values = np.fromiter(chain.from_iterable(several), float, count=int(runs.sum()))
        first = np.concatenate(([0], np.cumsum(runs)[:-1]))
        means = np.add.reduceat(values, first) / runs
        scales = np.abs(means)
        if share:
            scales = np.where((means >= 0) & (means <= 1), means * (1 - means), scales)
        squares_of_each = np.add.reduceat((values - np.repeat(means, runs)) ** 2, first)
        counts = scales > 0
        each, scales, degrees = squares_of_each[counts], scales[counts], (runs - 1)[counts]
        if share and len(each):
            squares += float(degrees.sum() * each.sum() / (degrees * scales**2).sum())
        else:
            squares += float((each / scales**2).sum())
        freedom += float(degrees.sum())
    return math.sqrt(squares / freedom)
