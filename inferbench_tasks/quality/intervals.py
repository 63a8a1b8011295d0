"""Intervals of shares: Wilson's."""

from __future__ import annotations

from scipy.stats import binomtest

from inferbench_tasks.quality.base import CONFIDENCE, Quality


def share(hits: int, samples: int) -> Quality:
    """``hits`` of ``samples``, with Wilson's score interval (E. B. Wilson, JASA 22, 1927).

    ValueError without samples.
    """
    if samples < 1:
        raise ValueError("a share of no samples")
    interval = binomtest(hits, samples).proportion_ci(CONFIDENCE, method="wilson")
    return Quality(hits / samples, float(interval.low), float(interval.high), "Wilson")
