"""Percentile intervals of the bootstrap of samples (B. Efron, R. J. Tibshirani, 1993), seeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import CONFIDENCE, Quality

DRAWS = 1_000
_SEED = 0xB007
#: Above so many drawn samples there are fewer draws, and below so few draws no interval.
_MOST_DRAWN = 50_000_000
_FEWEST_DRAWS = 200
#: With fewer samples the percentiles of resamples are too narrow to be shown.
FEWEST_SAMPLES = 10


def with_interval(value: float, drawn: Sequence[float] | NDArray[np.float64], method: str) -> Quality:
    """The value with the percentiles of what was drawn.

    No interval where all that was drawn is equal, as if nothing could be wrong: a resample can't hold what the sample
    lacks (of 450 right answers, a wrong one).
    """
    whole = np.asarray(drawn, dtype=np.float64)
    drawn = whole[np.isfinite(whole)]
    if not len(drawn) or drawn.min() == drawn.max():
        return Quality(value, method="no interval: all samples alike tell nothing of others")
    tail = (1 - CONFIDENCE) / 2
    if lost := len(whole) - len(drawn):
        if lost > tail * len(whole):  # an end of the interval may be among them
            return Quality(value, method=f"no interval: {lost:,} of {len(whole):,} resamples have no value")
        method += f", {lost:,} of them without a value"
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Quality(value, min(float(low), value), max(float(high), value), method)


def of_samples(samples: int, figure: Callable[[NDArray[np.intp]], float], most_draws: int = DRAWS) -> Quality:
    """``figure`` of rows: of all of them, with its interval by rows drawn anew, ``most_draws`` times at most."""
    value = figure(np.arange(samples))
    draws = min(most_draws, _MOST_DRAWN // max(1, samples))
    if samples < FEWEST_SAMPLES or draws < _FEWEST_DRAWS:
        few = f"no interval: fewer than {FEWEST_SAMPLES} samples"
        return Quality(
            value, method=few if samples < FEWEST_SAMPLES else "no interval: too many samples to draw"
        )
    rng = np.random.default_rng(_SEED)
    drawn = [figure(rng.integers(0, samples, samples)) for _ in range(draws)]
    return with_interval(value, drawn, f"bootstrap of the samples, {draws:,} draws")
