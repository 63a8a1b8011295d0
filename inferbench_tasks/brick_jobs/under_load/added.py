"""What a server adds to requests of one size: while it is busy, and after it slept."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.brick_jobs.under_load.distribution import Distribution

#: A request that comes so soon after the last answer finds the server awake, ns.
AWAKE_NS = 50_000.0


@dataclass(frozen=True)
class Pause:
    """After about so long without anything under way."""

    idle_ns: float
    batch_ns: float
    rest_ns: Distribution


@dataclass(frozen=True)
class Added:
    """What a server adds to each request (``front_ns``, ``rest_ns``) and to each batch, awake; ``asleep``: the latter
    two after pauses, the shortest first."""

    front_ns: float
    batch_ns: float
    rest_ns: Distribution
    asleep: tuple[Pause, ...] = ()

    def rest(self, idle_ns: float, rng: np.random.Generator) -> float:
        """One request's, drawn as that after a pause of ``idle_ns``."""
        low, high, part = self._around(idle_ns)
        at = Distribution.part(rng)
        ns = low.rest_ns.means[at]
        return ns + part * (high.rest_ns.means[at] - ns) if part else ns

    def batch_after(self, idle_ns: float) -> float:
        """What a batch takes longer than awake, after so long without any."""
        low, high, part = self._around(idle_ns)
        return low.batch_ns + part * (high.batch_ns - low.batch_ns) - self.batch_ns

    def rests(self, idle_ns: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        """As ``rest``, of many requests, each with a number in [0, 1)."""
        low, high, part = self._all_around(idle_ns)
        _, means = self._tables
        at = Distribution.parts(uniform)
        values: NDArray[np.float64] = means[low, at] + part * (means[high, at] - means[low, at])
        return values

    def batches_after(self, idle_ns: NDArray[np.float64]) -> NDArray[np.float64]:
        """As ``batch_after``, of many."""
        low, high, part = self._all_around(idle_ns)
        batch_ns, _ = self._tables
        values: NDArray[np.float64] = batch_ns[low] + part * (batch_ns[high] - batch_ns[low]) - self.batch_ns
        return values

    @cached_property
    def _tables(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``batch_ns`` by pause, and the means of ``rest_ns`` by pause and part."""
        pauses, _ = self._pauses
        return np.array([one.batch_ns for one in pauses]), np.array([one.rest_ns.means for one in pauses])

    def _all_around(self, idle_ns: NDArray[np.float64]) -> tuple[Any, Any, Any]:
        """As ``_around``, of many; pauses by their places."""
        lengths_ns = np.array(self._pauses[1])
        above = np.searchsorted(lengths_ns, idle_ns, "right")
        low, high = np.maximum(above - 1, 0), np.minimum(above, len(lengths_ns) - 1)
        between = low < high
        between &= above > 0
        part = np.zeros(len(idle_ns))
        ends = lengths_ns[low[between]], lengths_ns[high[between]]
        part[between] = np.log(idle_ns[between] / ends[0]) / np.log(ends[1] / ends[0])
        return low, high, part

    @cached_property
    def _pauses(self) -> tuple[tuple[Pause, ...], tuple[float, ...]]:
        """Awake and all others, and how long they are."""
        pauses = (Pause(AWAKE_NS, self.batch_ns, self.rest_ns), *self.asleep)
        return pauses, tuple(pause.idle_ns for pause in pauses)

    def _around(self, idle_ns: float) -> tuple[Pause, Pause, float]:
        """The shorter and the longer pause, and how far between them it lies on a line in the logarithm of the pause;
        beyond the longest as after that."""
        pauses, lengths_ns = self._pauses
        above = bisect_right(lengths_ns, idle_ns)
        if not above:
            return pauses[0], pauses[0], 0.0
        if above == len(pauses):
            return pauses[-1], pauses[-1], 0.0
        low_ns, high_ns = lengths_ns[above - 1], lengths_ns[above]
        return pauses[above - 1], pauses[above], math.log(idle_ns / low_ns) / math.log(high_ns / low_ns)
