"""Two variants on the same samples under any figure: its difference, by drawing the samples of both together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.quality.base import CONFIDENCE
from inferbench_tasks.quality.bootstrap import FEWEST_SAMPLES

DRAWS = 1_000
_SEED = 0xB0B0

#: A figure of the samples in these rows: the first variant's, the second's.
Figures = Callable[[NDArray[np.intp]], tuple[float, float]]


@dataclass(frozen=True)
class Difference:
    """The second's figure less the first's; its 95% interval, None where all draws are equal.

    ``p_value``: 2 (k + 1) / (draws + 1), at most 1, where k draws lie at 0 or on that side of it which has fewer; so
    it is at least 2 / (draws + 1). Where all draws are equal: 1 at a difference of 0, else 1 / (draws + 1).
    """

    value: float
    low: float | None
    high: float | None
    p_value: float


def paired_bootstrap(samples: int, figures: Figures, draws: int = DRAWS) -> Difference:
    """By percentiles of ``draws`` seeded draws of the samples (B. Efron, R. J. Tibshirani, 1993, chapter 13).

    ValueError for fewer than ten samples, of which resamples say nothing.
    """
    if samples < FEWEST_SAMPLES:
        raise ValueError(f"{samples} samples are too few to be drawn anew")
    first, second = figures(np.arange(samples))
    rng = np.random.default_rng(_SEED)
    drawn = np.empty(draws)
    for at in range(draws):
        one, other = figures(rng.integers(0, samples, samples))
        drawn[at] = other - one
    return summarised(second - first, drawn)


def summarised(value: float, drawn: NDArray[np.float64]) -> Difference:
    """A difference with what its draws say of it."""
    draws = len(drawn)
    if drawn.min() == drawn.max():
        return Difference(value, None, None, 1.0 if value == 0 else 1 / (draws + 1))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    below, above = int((drawn <= 0).sum()), int((drawn >= 0).sum())
    p_value = min(1.0, 2 * (min(below, above) + 1) / (draws + 1))
    return Difference(value, min(float(low), value), max(float(high), value), p_value)
