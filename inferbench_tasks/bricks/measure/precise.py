"""How well a trimmed mean is known from the runs that it is of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from inferbench_tasks.bricks.measure.method import TRIMMED_RATIO

CONFIDENCE = 0.95


def half_width_ratio(times: Sequence[float], ratio: float = TRIMMED_RATIO) -> float:
    """The half-width of the trimmed mean's 95% interval, over the mean; ValueError where less than two are left of it.

    Student's, with the winsorised variance in place of the variance (Tukey and McLaughlin, 1963).
    """
    values = np.sort(np.asarray(times, np.float64))
    count, cut = len(values), int(len(values) * ratio)
    left = count - 2 * cut
    if left < 2:
        raise ValueError(f"{count} times: nothing tells how well their mean is known")
    winsorised = values.clip(values[cut], values[count - cut - 1])
    error = math.sqrt((count - 1) * float(winsorised.var(ddof=1)) / (left * (left - 1)))
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, left - 1))
    return quantile * error / float(values[cut : count - cut].mean())
