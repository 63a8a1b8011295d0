"""What configurations that were not run would show: logarithms of figures, with how sure that is.

Two views, each made of the evidence so far: ``BySettings`` lets a Gaussian process per figure learn from nothing what
the settings do; ``ByServers`` starts from many plausible servers (``servers``) and a part that they don't explain. The
second knows far more as long as the server is one like them; which one is believed is decided by how well each
foretells every run from the others (leave one out: Rasmussen and Williams, "Gaussian Processes for Machine Learning",
2006, section 5.4.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.analysis.search import servers
from inferbench_tasks.analysis.search.surrogate import (
    Array,
    Encoding,
    GaussianProcess,
    matern,
    squared_distances,
)

Indexes = NDArray[np.intp]
#: What servers don't explain: its standard deviation, and that of a measurement; the likeliest pair is taken.
_UNEXPLAINED = (0.02, 0.06, 0.15, 0.4, 1.0)
_NOISE = (0.02, 0.08)
#: Standard deviation of a figure's level, which no server is asked about (its unit may be another).
_LEVEL = 1.5


@dataclass(frozen=True)
class Evidence:
    """What runs of the configurations ``indexes`` showed: the logarithm of each figure, one value per run."""

    indexes: Indexes
    logs: Mapping[str, Array]


class BySettings:
    """One Gaussian process per figure. ``theta``: fitted hyperparameters, kept from one fit to the next."""

    def __init__(
        self, encoding: Encoding, evidence: Evidence, figures: Sequence[str], theta: dict[str, Array]
    ) -> None:
        self._x = encoding.features
        self._models = []
        for name in figures:
            model = GaussianProcess(
                self._x[evidence.indexes], encoding.axis_of, evidence.logs[name], theta.get(name)
            )
            theta[name] = model.theta
            self._models.append(model)
        self.foretold = sum(model.foretold() for model in self._models)

    def at(self, indexes: Indexes) -> tuple[Array, Array]:
        """Means (points, figures) and covariances (points, figures, figures)."""
        each = [model.predict(self._x[indexes]) for model in self._models]
        mean, sd = np.stack([m for m, _ in each], axis=1), np.stack([s for _, s in each], axis=1)
        return mean, sd[:, :, None] ** 2 * np.eye(len(self._models))


class Prior:
    """What plausible servers show over a space; made once for a search."""

    def __init__(
        self, points: Sequence[Mapping[str, Any]], figures: Sequence[str], encoding: Encoding, seed: int
    ) -> None:
        self.figures = tuple(figures)
        plausible = servers.plausible(points, figures, np.random.default_rng(seed))
        self.size = len(points)
        self.mean = plausible.mean(axis=0).ravel()
        self.parts = (plausible.reshape(len(plausible), -1) - self.mean) / len(plausible) ** 0.5
        self.features = encoding.features


class ByServers:
    """The prior and the evidence. A place is a figure at a point: its figure's number x points + the point's."""

    def __init__(self, prior: Prior, evidence: Evidence, figures: Sequence[str]) -> None:
        from scipy.linalg import cho_factor, cho_solve

        self._prior = prior
        self._numbers = [prior.figures.index(name) for name in figures]
        present = [number for number, name in enumerate(prior.figures) if name in evidence.logs]
        self._at = np.concatenate([number * prior.size + evidence.indexes for number in present])
        values = np.concatenate([evidence.logs[prior.figures[number]] for number in present])
        rest = values - prior.mean[self._at]
        usual = prior.parts[:, self._at].T @ prior.parts[:, self._at] + self._level(self._at, self._at)
        unusual = self._unexplained(self._at, self._at)
        best = -np.inf
        for amplitude in _UNEXPLAINED:
            for noise in _NOISE:
                covariance = usual + amplitude**2 * unusual + noise**2 * np.eye(len(rest))
                factor = cho_factor(covariance, lower=True)
                weights = cho_solve(factor, rest)
                likelihood = -0.5 * rest @ weights - np.log(np.diag(factor[0])).sum()
                if likelihood > best:
                    best, self._amplitude, self._factor, self._weights = (
                        likelihood,
                        amplitude,
                        factor,
                        weights,
                    )
        self.foretold = self._leave_one_out(evidence, present)

    def at(self, indexes: Indexes) -> tuple[Array, Array]:
        """Like ``BySettings.at``; figures of one point depend on each other."""
        from scipy.linalg import cho_solve

        prior = self._prior
        places = [number * prior.size + indexes for number in self._numbers]
        cross = [
            prior.parts[:, place].T @ prior.parts[:, self._at]
            + self._level(place, self._at)
            + self._amplitude**2 * self._unexplained(place, self._at)
            for place in places
        ]
        mean = np.stack(
            [prior.mean[p] + c @ self._weights for p, c in zip(places, cross, strict=True)], axis=1
        )
        solved = [cho_solve(self._factor, c.T) for c in cross]
        covariance = np.empty((len(indexes), len(places), len(places)))
        for i, a in enumerate(places):
            for j, b in enumerate(places):
                own = (prior.parts[:, a] * prior.parts[:, b]).sum(axis=0)
                own = own + (i == j) * (_LEVEL**2 + self._amplitude**2)
                covariance[:, i, j] = own - np.einsum("ij,ji->i", cross[i], solved[j])
        return mean, covariance

    def _leave_one_out(self, evidence: Evidence, present: list[int]) -> float:
        """The logarithm of the density of each run's figures, by all other runs."""
        from scipy.linalg import cho_solve

        runs = len(evidence.indexes)
        inverse = cho_solve(self._factor, np.eye(len(self._at)))
        places = [present.index(number) for number in self._numbers]
        density = 0.0
        for run in range(runs):
            own = np.arange(len(present)) * runs + run
            covariance = np.linalg.inv(inverse[np.ix_(own, own)])
            error = (covariance @ self._weights[own])[places]
            part = covariance[np.ix_(places, places)]
            density -= 0.5 * float(
                error @ np.linalg.solve(part, error) + np.linalg.slogdet(2 * np.pi * part)[1]
            )
        return density

    def _level(self, a: Indexes, b: Indexes) -> Array:
        same: Array = (a[:, None] // self._prior.size == b[None] // self._prior.size) * _LEVEL**2
        return same

    def _unexplained(self, a: Indexes, b: Indexes) -> Array:
        """Smooth over the settings, of each figure by itself; unit variance."""
        x, size = self._prior.features, self._prior.size
        distance = np.sqrt(np.maximum(squared_distances(x[a % size], x[b % size]), 1e-12))
        covariance: Array = matern(distance) * (a[:, None] // size == b[None] // size)
        return covariance
