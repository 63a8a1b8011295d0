"""Means with intervals of steps that follow each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Fewer measured steps than this give no figure.
LEAST_STEPS = 30
#: Blocks of neighbouring steps: their means are nearly independent where single steps are not.
BLOCKS = 10


def interval(means: NDArray[np.float64]) -> list[float] | None:
    """The 95% interval of the mean of independent values, by Student's t; None of fewer than three."""
    if len(means) < 3:
        return None
    from scipy import stats

    half = float(stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means)))
    return [float(means.mean()) - half, float(means.mean()) + half]


def of_steps(values_ms: NDArray[np.float64]) -> dict[str, Any]:
    """``mean``, ``p50``, ``p95`` and ``ci95`` of the mean (by blocks) of steps in the order of time."""
    blocks = np.array([block.mean() for block in np.array_split(values_ms, BLOCKS)])
    return {
        "mean": float(values_ms.mean()),
        "p50": float(np.quantile(values_ms, 0.5)),
        "p95": float(np.quantile(values_ms, 0.95)),
        "ci95": interval(blocks),
    }
