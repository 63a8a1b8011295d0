"""A Gaussian process over a discrete space of settings: what a configuration that was not run would show.

Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006: chapter 2 (posterior), section 4.2.1
(Matern 5/2), section 5.4.1 (marginal likelihood and its gradient). The kernel is Matern 5/2 with one length
scale per axis, plus a linear part, so that "more is more" carries on where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.dotted import last, walk

Array = NDArray[np.float64]
#: Prior of each hyperparameter's logarithm: mean and standard deviation. Weak; with a dozen points, needed.
_LENGTH, _SIGNAL, _LINEAR, _NOISE = (0.3, 0.8), (0.0, 1.0), (-0.7, 1.0), (-3.0, 1.0)
_ROOT5 = 5.0**0.5
#: Values that differ by less (half a percent, being logarithms) are taken for equal.
_LEAST = 0.005
#: Settings, by the last part of their path, that make a quantity of its own together: threads that may run at once,
#: samples in flight in a closed loop, users for each instance. What they mean need not be learnt from a dozen runs.
_TOGETHER: tuple[tuple[str, str, Callable[[float, float], float]], ...] = (
    ("threads", "instances", lambda a, b: a * b),
    ("batch_size", "concurrency", lambda a, b: a * b),
    ("concurrency", "instances", lambda a, b: a / b),
)


@dataclass(frozen=True)
class Encoding:
    """``features``: (points, columns), each axis within [0, 1]; ``axis_of``: the axis of each column."""

    features: Array
    axis_of: NDArray[np.intp]


def encode(points: Sequence[Mapping[str, Any]]) -> Encoding:
    """Settings as numbers: a number by the logarithm of its size or by its rank, anything else by one column
    per value; nested mappings by their parts. An axis with one value says nothing and gets no column. Quantities that
    settings make together in every point (``_TOGETHER``) are axes of their own.
    """
    flat = [flatten_point(point) for point in points]
    quantities = [_together(point) for point in flat]
    common = set.intersection(*(set(one) for one in quantities))
    flat = [
        {**point, **{k: v for k, v in one.items() if k in common}}
        for point, one in zip(flat, quantities, strict=True)
    ]
    names = list(dict.fromkeys(name for point in flat for name in point))
    columns: list[Array] = []
    axis_of: list[int] = []
    for axis, name in enumerate(names):
        for column in _columns([point.get(name) for point in flat]):
            columns.append(column)
            axis_of.append(axis)
    places = {axis: i for i, axis in enumerate(dict.fromkeys(axis_of))}
    features = np.stack(columns, axis=1) if columns else np.zeros((len(points), 0))
    return Encoding(features, np.array([places[axis] for axis in axis_of], dtype=np.intp))


def _together(point: dict[str, Any]) -> dict[str, float]:
    """The quantities that a point's settings make together."""
    numbers: dict[str, list[float]] = {}
    for path, value in point.items():
        if is_number(value) and value > 0:
            numbers.setdefault(last(path), []).append(float(value))
    return {
        f"{first} with {second}": made_of(a[0], b[0])
        for first, second, made_of in _TOGETHER
        if len(a := numbers.get(first, [])) == 1 and len(b := numbers.get(second, [])) == 1
    }


def flatten_point(value: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings by their dotted paths, and ``set`` for what they are parts of."""
    return {path: "set" if isinstance(item, Mapping) else item for path, item in walk(value)}


def _columns(values: list[Any]) -> list[Array]:
    """A column for the numbers (if there are several), and one per other value (if there are several kinds)."""
    numbers = sorted({float(v) for v in values if is_number(v)})
    others = list(dict.fromkeys(repr(v) for v in values if not is_number(v)))
    columns = []
    if len(numbers) > 1:
        scaled = np.log(numbers) if numbers[0] > 0 else np.arange(len(numbers), dtype=float)
        place = dict(zip(numbers, (scaled - scaled[0]) / (scaled[-1] - scaled[0]), strict=True))
        columns.append(np.array([place[float(v)] if is_number(v) else 0.5 for v in values]))
    if len(others) + bool(numbers) > 1:
        kinds = others if numbers or len(others) > 2 else others[1:]
        columns += [np.array([float(not is_number(v) and repr(v) == kind) for v in values]) for kind in kinds]
    return columns


def is_number(value: Any) -> bool:
    """Whether a setting is one of a size."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


class GaussianProcess:
    """Fitted by the largest posterior of its hyperparameters; ``start`` warms the fit up (an earlier ``theta``)."""

    def __init__(
        self, features: Array, axis_of: NDArray[np.intp], values: Array, start: Array | None = None
    ) -> None:
        from scipy.linalg import cho_factor, cho_solve
        from scipy.optimize import minimize

        self._x = features
        self._axis_of = axis_of
        self._axes = int(axis_of.max()) + 1 if len(axis_of) else 0
        self._mean = float(values.mean())
        self._scale = max(float(values.std()), _LEAST)
        self._y = (values - self._mean) / self._scale
        self._d2 = self._distances(features, features)
        prior = [_LENGTH] * self._axes + [_SIGNAL, _LINEAR, _NOISE]
        self._prior_mean, self._prior_sd = (np.array(part) for part in zip(*prior, strict=True))
        first = self._prior_mean if start is None else start
        fit = minimize(
            self._loss, first, jac=True, method="L-BFGS-B", bounds=[(-6.0, 5.0)] * len(first), options={"maxiter": 60}
        )  # fmt: skip
        self.theta: Array = fit.x
        covariance = self._covariance(self.theta)[0]
        self._factor = cho_factor(covariance, lower=True)
        self._weights = cho_solve(self._factor, self._y)

    def predict(self, features: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the value itself, without the noise of a measurement."""
        from scipy.linalg import cho_solve

        lengths, signal, linear, _ = self._split(self.theta)
        scaled = self._scaled(self._distances(features, self._x), lengths)
        cross = signal * matern(scaled) + linear * (features - 0.5) @ (self._x - 0.5).T
        own = signal + linear * ((features - 0.5) ** 2).sum(axis=1)
        mean = cross @ self._weights
        variance = own - (cross * cho_solve(self._factor, cross.T).T).sum(axis=1)
        return mean * self._scale + self._mean, np.sqrt(np.maximum(variance, 1e-10)) * self._scale

    def foretold(self) -> float:
        """The logarithm of the density of each value, by all other values."""
        from scipy.linalg import cho_solve

        inverse = cho_solve(self._factor, np.eye(len(self._y)))
        variance = self._scale**2 / np.diag(inverse)
        error = self._scale * self._weights / np.diag(inverse)
        return float(-0.5 * (error**2 / variance + np.log(2 * np.pi * variance)).sum())

    def _split(self, theta: Array) -> tuple[Array, float, float, float]:
        """Length scales, and the variances of signal, linear part and noise."""
        signal, linear, noise = np.exp(2 * theta[-3:]).tolist()
        return np.exp(theta[:-3]), signal, linear, noise

    def _distances(self, a: Array, b: Array) -> Array:
        """Squared distances per axis: (axes, a, b); the columns of a category count half each."""
        distances = np.zeros((self._axes, len(a), len(b)))
        for column, axis in enumerate(self._axis_of):
            distances[axis] += (a[:, None, column] - b[None, :, column]) ** 2
        return distances

    @staticmethod
    def _scaled(d2: Array, lengths: Array) -> Array:
        distances: Array = np.sqrt(np.maximum((d2 / lengths[:, None, None] ** 2).sum(axis=0), 1e-12))
        return distances

    def _covariance(self, theta: Array) -> tuple[Array, Array]:
        """The covariance, and its derivative by each logarithm: (hyperparameters, n, n)."""
        lengths, signal, linear, noise = self._split(theta)
        r = self._scaled(self._d2, lengths)
        smooth = signal * matern(r)
        line = linear * (self._x - 0.5) @ (self._x - 0.5).T
        unit = np.eye(len(self._x))
        slope = signal * (5 / 3) * (1 + _ROOT5 * r) * np.exp(-_ROOT5 * r)
        by_length = slope[None] * self._d2 / lengths[:, None, None] ** 2
        gradient = np.concatenate([by_length, [2 * smooth, 2 * line, 2 * noise * unit]])
        return smooth + line + (noise + 1e-8) * unit, gradient

    def _loss(self, theta: Array) -> tuple[float, Array]:
        """Negative logarithm of the posterior, and its gradient."""
        covariance, gradient = self._covariance(theta)
        lower = np.linalg.cholesky(covariance)
        inverse = np.linalg.inv(covariance)
        weights = inverse @ self._y
        off = (theta - self._prior_mean) / self._prior_sd
        value = 0.5 * self._y @ weights + np.log(np.diag(lower)).sum() + 0.5 * (off**2).sum()
        slope = 0.5 * np.einsum("ij,kij->k", inverse - np.outer(weights, weights), gradient)
        return float(value), slope + off / self._prior_sd


def squared_distances(a: Array, b: Array) -> Array:
    """Between all rows of two matrices, summed over their columns."""
    distances: Array = ((a[:, None] - b[None]) ** 2).sum(axis=2)
    return distances


def matern(r: Array) -> Array:
    """The Matern 5/2 correlation at these scaled distances."""
    correlation: Array = (1 + _ROOT5 * r + 5 / 3 * r**2) * np.exp(-_ROOT5 * r)
    return correlation
