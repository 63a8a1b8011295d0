"""What the machine's own level adds to a ratio: a step of the candidate alone moves the mean of both sides by half.

The ratio candidate / baseline is free of what the whole machine does, but carries the noise of both sides. Where
the machine holds still, the level of both sides (the mean of their ln) says more: if only the candidate got slower
by d, that level steps by d/2 at the same night. Where the machine moves, it says nothing. Which of the two it is, is
learned from the levels: they are a constant with noise and a random walk of the machine, whose variance per session
is one of WALKS times the noise's; each is weighted by its restricted likelihood, and the step is estimated by
generalised least squares (Patterson and Thompson 1971).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from inferbench_tasks.regression.spread import Array

WALKS = (0.0, 0.003, 0.03, 0.3, 3.0)
#: No machine is steadier than that from one time to another, ln ratio: what has not been seen yet may still come.
FLOOR = 0.0005
#: So many sessions before a step, and in all, say how much the machine moves.
MIN_BEFORE, MIN_SESSIONS = 3, 6


@dataclass(frozen=True)
class _Design:
    """``residual``: levels -> what a constant leaves, in the metric of the walk; ``steps``: the same of each step."""

    residual: Array
    steps: Array
    information: Array
    log_likelihood: Array


def candidate_steps(levels: Array) -> tuple[Array, Array]:
    """For a step at each session: the change of the ratio that it would be, and its variance.

    An infinite variance says nothing.
    """
    count = len(levels)
    shifts, variances = np.zeros(count), np.full(count, np.inf)
    if count < MIN_SESSIONS:
        return shifts, variances
    centred = levels - levels.mean()
    means, informations, likelihoods = [], [], []
    for design in _designs(count):
        step = design.steps @ centred / design.information
        remainder = centred @ design.residual @ centred - step**2 * design.information
        noise = np.maximum(remainder, 1e-15) / (count - 2)
        means.append(2 * step)
        informations.append(1 / (4 * noise / design.information + 4 * FLOOR**2))
        likelihoods.append(design.log_likelihood - (count - 2) / 2 * np.log(noise))
    logs = np.array(likelihoods)
    weights = np.exp(logs - logs.max(axis=0))
    weights = weights / weights.sum(axis=0) * np.array(informations)
    information = weights.sum(axis=0)
    shifts[MIN_BEFORE:] = (weights * np.array(means)).sum(axis=0) / information
    variances[MIN_BEFORE:] = 1 / information
    return shifts, variances


@lru_cache(maxsize=128)
def _designs(count: int) -> list[_Design]:
    """One for each of WALKS; the steps begin at the sessions MIN_BEFORE and later."""
    index = np.arange(count)
    walk = np.minimum.outer(index + 1.0, index + 1.0)
    steps = (index[None, :] >= np.arange(MIN_BEFORE, count)[:, None]).astype(float)
    designs = []
    for ratio in WALKS:
        covariance = np.eye(count) + ratio * walk
        inverse = np.linalg.inv(covariance)
        ones = inverse.sum(axis=0)
        residual = inverse - np.outer(ones, ones) / ones.sum()
        projected = steps @ residual
        information = (projected * steps).sum(axis=1)
        determinant = np.linalg.slogdet(covariance)[1] + np.log(ones.sum())
        designs.append(_Design(residual, projected, information, -(determinant + np.log(information)) / 2))
    return designs
