"""Ten processes that latencies may follow, in ms and in the order of the requests; and their true percentiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Series = NDArray[np.float64]
Process = Callable[[np.random.Generator, int], Series]

#: Values that the true percentiles are taken from.
_TRUTH_VALUES = 4_000_000
_TRUTH_LENGTH = 50_000


def independent(rng: np.random.Generator, n: int) -> Series:
    """Lognormal, each for itself."""
    return np.exp(0.3 * rng.standard_normal(n))


def stalls(rng: np.random.Generator, n: int) -> Series:
    """A garbage collector's: every 800 to 1,200 requests 20 to 80 wait for the end of a pause."""
    values = independent(rng, n)
    start = rng.uniform(0, 1000)
    while start < n:
        length = rng.uniform(20, 80)
        waiting = np.arange(int(start), min(n, int(start + length)))
        values[waiting] += (start + length - waiting) * 0.5
        start += 1000 * rng.uniform(0.8, 1.2)
    return values


def autoregressive(rng: np.random.Generator, n: int) -> Series:
    """AR(1) of the logarithm, 0.95 from a request to the next."""
    from scipy.signal import lfilter

    noise = rng.standard_normal(n + 500)
    series: Any = lfilter([math.sqrt(1 - 0.95**2)], [1, -0.95], noise)
    return np.asarray(np.exp(0.5 * series[500:]))


def markov_modulated(rng: np.random.Generator, n: int) -> Series:
    """A server that is four times slower for 40 requests on average, after 200 on average."""
    changes = n // 60 + 50
    lengths = np.empty(2 * changes, np.int64)
    lengths[0::2], lengths[1::2] = rng.geometric(1 / 200, changes), rng.geometric(1 / 40, changes)
    slow = np.repeat(np.arange(2 * changes) % 2, lengths)[rng.integers(0, 300) :][:n]
    return np.asarray(independent(rng, n) * np.where(slow, 4.0, 1.0))


def slow_start(rng: np.random.Generator, n: int) -> Series:
    """Four times slower at first; that ends with a time constant of 2% of the run."""
    return np.asarray(independent(rng, n) * (1 + 3 * np.exp(-np.arange(n) / (0.02 * n))))


def bimodal(rng: np.random.Generator, n: int) -> Series:
    """One of seven misses a cache, each for itself."""
    return np.where(rng.random(n) < 0.15, 5.0, 1.0) * np.exp(0.1 * rng.standard_normal(n))


def drifting(rng: np.random.Generator, n: int) -> Series:
    """30% slower at the end than at the beginning."""
    return independent(rng, n) * (1 + 0.3 * np.arange(n) / n)


def batches(rng: np.random.Generator, n: int) -> Series:
    """4 to 32 requests share the latency of their batch."""
    sizes = rng.integers(4, 33, n // 4 + 2)
    shared = np.repeat(np.exp(0.5 * rng.standard_normal(len(sizes))), sizes)[:n]
    return np.asarray(shared * (1 + 0.02 * rng.standard_normal(n)))


def heavy_tail(rng: np.random.Generator, n: int) -> Series:
    """Pareto with exponent 1.5: the variance is infinite."""
    return np.asarray(1 + rng.pareto(1.5, n))


def periodic(rng: np.random.Generator, n: int) -> Series:
    """Up and down by half every 400 to 600 requests."""
    turns = np.arange(n) / rng.uniform(400, 600) + rng.random()
    return np.exp(0.2 * rng.standard_normal(n)) * (1 + 0.5 * np.sin(2 * np.pi * turns))


PROCESSES: dict[str, Process] = {
    "independent": independent,
    "stalls": stalls,
    "AR(1)": autoregressive,
    "Markov-modulated": markov_modulated,
    "slow start": slow_start,
    "bimodal": bimodal,
    "drifting": drifting,
    "batches": batches,
    "heavy tail": heavy_tail,
    "periodic": periodic,
}


def true_percentiles(
    process: Process, n: int, quantiles: tuple[float, ...], count: int = _TRUTH_VALUES
) -> NDArray[np.float64]:
    """Percentiles of the process over many runs; of n requests each where a run has a beginning and an end.

    ``count``: values that they are taken from.
    """
    rng = np.random.default_rng(20_111)
    length = n if process in (slow_start, drifting) else _TRUTH_LENGTH
    runs = [process(rng, length) for _ in range(count // length)]
    return np.asarray(np.quantile(np.concatenate(runs), quantiles))
