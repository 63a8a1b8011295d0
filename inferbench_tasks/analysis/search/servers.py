"""What servers do over a space of settings: many plausible ones, drawn at random, in a closed loop.

Each is a plain model: fixed and per-sample work, threads that scale with losses, cores that instances share, batches
that wait and merge, a front end; throughput by the slowest of these, the mean latency by Little's law (L = X W), the
percentiles by a tail. None is meant to be the server that is searched: together they say which settings usually act
together and how figures hang together, so that a few runs tell much. Settings that the model does not know (a backend,
a format, a network) change the work by factors of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.analysis.search.surrogate import flatten_point, is_number
from inferbench_tasks.dotted import last

Array = NDArray[np.float64]
Indexes = NDArray[np.intp]
#: The settings of the model, by the last part of their path.
KNOWN = ("threads", "instances", "batch_size", "concurrency", "max_batch_size", "max_delay_ms")
#: Figures of the model -> standard normal quantile of a latency, None for the others.
MODELLED: dict[str, float | None] = {
    "throughput_samples_per_s": None, "throughput_rps": None, "goodput_rps": None, "cost_usd_per_1k": None,
    "cost_usd_per_1k_samples": None, "cpu_ms_per_sample": None, "cpu_cores": None, "mean_ms": None,
    "p50_ms": 0.0, "p90_ms": 1.282, "p95_ms": 1.645, "p99_ms": 2.326, "p999_ms": 3.09,
}  # fmt: skip
_SERVERS = 300
#: So many servers x points are drawn at once, which bounds the memory.
_AT_ONCE = 100_000


def plausible(
    points: Sequence[Mapping[str, Any]],
    figures: Sequence[str],
    rng: np.random.Generator,
    count: int = _SERVERS,
) -> Array:
    """Logarithms of these ``figures`` of ``count`` servers at all points: (servers, figures, points)."""
    flat = [flatten_point(point) for point in points]
    settings = {name: _values(flat, name) for name in KNOWN}
    others = _others(flat)
    levels = [_places(values) for values in settings.values() if values is not None]
    draws = np.empty((count, len(figures), len(points)))
    step = max(1, _AT_ONCE // len(points))
    for start in range(0, count, step):
        draw = _Draw(rng, min(step, count - start), len(points), levels)
        logs = _logs(settings, others, draw)
        for number, name in enumerate(figures):
            quantile = MODELLED[name]
            draws[start : start + step, number] = (
                logs[name] if quantile is None else logs["mean_ms"] + logs["spread"] * (quantile - 0.1)
            )
    return draws


@dataclass(frozen=True)
class _Draw:
    """Numbers at random, one for each server (a column) or each server and point."""

    rng: np.random.Generator
    servers: int
    points: int
    levels: Sequence[Indexes]

    def between(self, low: float, high: float) -> Array:
        return self.rng.uniform(low, high, (self.servers, 1))

    def among(self, values: Sequence[float]) -> Array:
        return self.rng.choice(np.array(values, dtype=float), (self.servers, 1))

    def factor(self, others: Sequence[Indexes], spread: float) -> Array:
        """Of the values of these settings."""
        logs = np.zeros((self.servers, self.points))
        for place in others:
            logs += self.rng.normal(0, spread, (self.servers, place.max() + 1))[:, place]
        return np.exp(logs)

    def rugged(self) -> Array:
        """What no law explains: a factor for each value of each setting, and one for each point."""
        point = self.rng.normal(0, 0.02, (self.servers, self.points))
        factors: Array = np.exp(point) * self.factor(self.levels, 0.05)
        return factors


def _places(values: Array) -> Indexes:
    """Which of its values a setting has at each point."""
    places: Indexes = np.unique(values, return_inverse=True)[1]
    return places


def _values(flat: Sequence[Mapping[str, Any]], name: str) -> Array | None:
    """A setting at all points, NaN where a point does not have it; None if no point has it."""
    values = np.full(len(flat), np.nan)
    for at, point in enumerate(flat):
        for path, value in point.items():
            if last(path) == name and is_number(value) and value >= 0:
                values[at] = float(value)
    return None if np.isnan(values).all() else values


def _others(flat: Sequence[Mapping[str, Any]]) -> list[Indexes]:
    """Of each setting that the model does not know, which value each point has."""
    places = []
    for path in dict.fromkeys(path for point in flat for path in point):
        if last(path) in KNOWN or last(path) == "batching":
            continue
        _, place = np.unique([repr(point.get(path)) for point in flat], return_inverse=True)
        if place.max():
            places.append(place)
    return places


def _logs(settings: Mapping[str, Array | None], others: Sequence[Indexes], draw: _Draw) -> dict[str, Array]:
    """Logarithms of what the servers show, and ``spread``, that of their latency. Times in ms; what is not swept is
    drawn too.
    """

    def setting(name: str, otherwise: Array | float) -> Array:
        values = settings[name]
        default = np.broadcast_to(otherwise, (draw.servers, draw.points))
        return default if values is None else np.where(np.isnan(values), default, values)

    threads, instances, size = (setting(name, 1.0) for name in ("threads", "instances", "batch_size"))
    users = setting("concurrency", draw.among([1, 4, 16, 64]))
    largest = setting("max_batch_size", 1.0)
    delay = np.where(largest > 1, setting("max_delay_ms", 0.0), 0.0)
    cores = threads.max() * draw.among([0.5, 1, 1, 2, 4])

    each = 10 ** draw.between(-1.3, 1.3)
    fixed = each * 10 ** draw.between(-1, 0.8) * draw.factor(others, 0.8)
    sample = each * draw.factor(others, 0.5)
    serial = np.minimum(1, draw.between(0, 0.7) * draw.factor(others, 0.4))
    # A batch leaves when it is full or its oldest request has waited: with enough users it is full, and none waits.
    room = np.maximum(1, largest // size)
    full = (delay > 0) & (users >= room)
    batch = np.minimum(room, np.maximum(1, np.round(users / np.where(delay > 0, 1, instances))))
    batch = np.where(full, room, 1 + draw.between(0.6, 1) * (batch - 1))
    busy = np.minimum(instances, np.maximum(1, users / batch))
    crowd = np.maximum(1, busy * threads / cores)
    crowd = crowd * (1 + draw.between(0, 0.7) * (crowd - 1))
    work = (fixed + sample * size * batch) * (serial + (1 - serial) / threads) * crowd
    waited = np.where(full, 0.0, delay)
    front = (10 ** draw.between(-1.3, 0.3) + 10 ** draw.between(-2.7, -0.7) * size) * draw.factor(others, 0.1)
    limits = np.stack([(work + waited) / (busy * batch), front, (work + waited + front) / users])
    sharpness = draw.between(3, 30)
    slowest_ms = (limits**sharpness).sum(axis=0) ** (1 / sharpness) * draw.rugged()
    queue = 1 - np.exp(-users / (2 * busy * batch))
    spread = (draw.between(0.03, 0.3) + draw.between(0, 0.3) * queue * crowd**0.5) * draw.rugged()

    rate = -np.log(slowest_ms)
    samples = rate + np.log(size)
    cpu = np.log((work * np.minimum(threads, cores / busy) ** 0.9 / batch + front) / size)
    return {
        "throughput_rps": rate, "goodput_rps": rate, "throughput_samples_per_s": samples, "cost_usd_per_1k": -rate,
        "cost_usd_per_1k_samples": -samples, "mean_ms": np.log(users) - rate, "spread": spread,
        "cpu_ms_per_sample": cpu, "cpu_cores": cpu + samples,
    }  # fmt: skip
