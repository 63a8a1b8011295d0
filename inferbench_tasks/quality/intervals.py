"""Intervals of shares: Wilson's."""

from __future__ import annotations

import math

from scipy.special import ndtri

from inferbench_tasks.quality.base import CONFIDENCE, Quality


def share(hits: int, samples: int) -> Quality:
    """``hits`` of ``samples``, with Wilson's score interval (E. B. Wilson, JASA 22, 1927).

    As ``scipy.stats.binomtest`` has it, to the last digit, without importing ``scipy.stats`` for a second. ValueError
    without samples.
    """
    if samples < 1:
        raise ValueError("a share of no samples")
    ratio, z = hits / samples, float(ndtri(0.5 + 0.5 * CONFIDENCE))
    whole = 2 * (samples + z**2)
    middle = (2 * samples * ratio + z**2) / whole
    half = z / whole * math.sqrt(4 * samples * ratio * (1 - ratio) + z**2)
    return Quality(
        ratio,
        0.0 if hits == 0 else middle - half,
        1.0 if hits == samples else middle + half,
        "Wilson",
    )
