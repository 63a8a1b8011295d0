"""The ratio of a session's pairs, and the rank test that attribution asks of stages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

#: Fewer pairs can't show 1% by their signs or ranks alone, and say little of their own spread: nothing is decided.
MIN_PAIRS = 5


def effect(log_ratios: Sequence[float]) -> float:
    """The Hodges-Lehmann estimate: the median of all means of two. As robust as a median, nearly as
    sharp as a mean (Hodges and Lehmann 1963)."""
    values = np.asarray(log_ratios, float)
    i, j = np.triu_indices(len(values))
    return float(np.median((values[i] + values[j]) / 2))


def mann_whitney(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Two-sided p; exact for small samples without ties. 1.0 where a side is empty or all is equal."""
    from scipy.stats import mannwhitneyu

    if not baseline or not candidate or len({*baseline, *candidate}) == 1:
        return 1.0
    return float(mannwhitneyu(baseline, candidate, alternative="two-sided").pvalue)
