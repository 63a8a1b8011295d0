"""Means with intervals of steps that follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Fewer measured steps than this give no figure.
LEAST_STEPS = 30


def interval(means: NDArray[np.float64]) -> list[float] | None:
    """The 95% interval of the mean of independent values, by Student's t; None of fewer than three."""
    if len(means) < 3:
        return None
    from scipy import stats

    half = float(stats.t.ppf(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means)))
    return [float(means.mean()) - half, float(means.mean()) + half]


def interval_of_rate(amounts: NDArray[np.float64], seconds: NDArray[np.float64]) -> list[float] | None:
    """The 95% interval of all amounts by all their seconds, of independent rounds; None of fewer than three.

    By what each round has beyond the rate times its seconds (the ratio estimator, Cochran, Sampling Techniques, 1977,
    chapter 6), by Student's t.
    """
    if len(amounts) < 3:
        return None
    rate = float(amounts.sum() / seconds.sum())
    beyond = interval(amounts - rate * seconds)  # whose mean is 0
    assert beyond is not None
    return [rate + bound / float(seconds.mean()) for bound in beyond]


def of_steps(rounds_ms: Sequence[NDArray[np.float64]]) -> dict[str, Any]:
    """``mean``, ``p50``, ``p95`` and ``ci95`` of the mean of all steps; those of each round by themselves.

    The interval is by the rounds: steps of one epoch resemble each other more than those of another one do, by what
    the machine does in that second and by where the loader's processes run.
    """
    values_ms = np.concatenate(rounds_ms)
    return {
        "mean": float(values_ms.mean()),
        "p50": float(np.quantile(values_ms, 0.5)),
        "p95": float(np.quantile(values_ms, 0.95)),
        "ci95": interval(np.array([steps_ms.mean() for steps_ms in rounds_ms])),
    }
