"""Simulated servers whose truth is known: how fast they serve at any time, and whether they ever settle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Level = Callable[[Array], Array]

#: Three windows of five seconds, ten trials: what perf_analyzer looks at before it gives up.
BUDGET_S = 50.0


@dataclass(frozen=True)
class Stream:
    """A load's answers, s; ``level(t)``: the true service time relative to the settled one.

    ``settles``: whether there is a steady state within the budget.
    """

    done_s: Array
    latency_s: Array
    level: Level
    settles: bool


def one(t: Array) -> Array:
    """A server that never changes."""
    return np.ones_like(t)


def open_loop(
    rng: np.random.Generator, level: Level, *, rate_rps: float, load: float, spread: float, settles: bool,
    stall_every_s: float = 0.0, stall_s: float = 0.0, slow_first: int = 0,
) -> Stream:  # fmt: skip
    """Poisson arrivals at a queue with one server, busy for ``load`` of the time once it has settled."""
    arrivals = np.cumsum(rng.exponential(1 / rate_rps, int(rate_rps * BUDGET_S * 1.3) + 50))
    arrivals = arrivals[arrivals < BUDGET_S]
    service = _service(rng, arrivals, level, load / rate_rps, spread, slow_first)
    done_s = np.empty_like(arrivals)
    free = 0.0
    for i in range(len(arrivals)):
        start = _after_stall(max(arrivals[i], free), stall_every_s, stall_s)
        free = done_s[i] = start + service[i]
    inside = done_s < BUDGET_S
    return Stream(done_s[inside], (done_s - arrivals)[inside], level, settles)


def closed_loop(
    rng: np.random.Generator, level: Level, *, users: int, service_s: float, spread: float, settles: bool,
    stall_every_s: float = 0.0, stall_s: float = 0.0, slow_first: int = 0,
) -> Stream:  # fmt: skip
    """``users`` take turns at one server."""
    done_s: list[float] = []
    free = 0.0
    noise = _noise(rng, int(BUDGET_S / service_s * 3) + 100, spread)
    grid = level(np.linspace(0, BUDGET_S, 5001))
    while free < BUDGET_S and len(done_s) < len(noise):
        start = _after_stall(free, stall_every_s, stall_s)
        if start >= BUDGET_S:
            break
        slow = 20.0 if len(done_s) < slow_first else 1.0
        free = start + service_s * grid[int(start / BUDGET_S * 5000)] * noise[len(done_s)] * slow
        done_s.append(free)
    ends = np.array(done_s)
    sent_s = np.concatenate([np.zeros(users), ends])[: len(ends)]
    inside = ends < BUDGET_S
    return Stream(ends[inside], (ends - sent_s)[inside], level, settles)


def _noise(rng: np.random.Generator, count: int, spread: float) -> Array:
    """Mean 1, coefficient of variation ``spread``."""
    shape = 1 / spread**2
    return rng.gamma(shape, 1 / shape, count)


def _service(
    rng: np.random.Generator, at_s: Array, level: Level, mean_s: float, spread: float, slow_first: int
) -> Array:
    service = level(at_s) * mean_s * _noise(rng, len(at_s), spread)
    service[:slow_first] *= 20
    return service


def _after_stall(at_s: float, every_s: float, length_s: float) -> float:
    if every_s and at_s % every_s < length_s:
        return at_s - at_s % every_s + length_s
    return at_s
