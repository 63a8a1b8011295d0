"""Leveled profiling: what each instrument costs, from the same requests asked with and without it.

After XSP (C. Li et al., arXiv 1908.06869): a level's times are taken from the run that instruments no deeper level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean, mean, stdev
from typing import Any

from scipy.stats import t

from inferbench_tasks.tracing.spans import Level

#: Two-sided.
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Overhead:
    """Latency with a level's instruments by the latency without any, over rounds; an interval needs two of them.

    The latencies of two levels are to each other as their ratios say: both are geometric means over the rounds.
    """

    level: Level
    latency_ms: float
    ratio: float
    low: float | None
    high: float | None

    def as_dict(self) -> dict[str, Any]:
        """As it is stored."""
        ci95 = None if self.low is None or self.high is None else [self.low, self.high]
        return {"level": self.level, "latency_ms": self.latency_ms, "ratio": self.ratio, "ci95": ci95}


def overheads(rounds: Sequence[Mapping[Level, float]], levels: Sequence[Level]) -> list[Overhead]:
    """Of each level, the first of which has no instruments; ``rounds``: level -> median latency, ms, of one round.

    The ratio is the geometric mean of the rounds' ratios; its interval is Student's t of their logarithms.
    """
    found = []
    for level in levels:
        logs = [math.log(each[level] / each[levels[0]]) for each in rounds]
        centre = mean(logs)
        low = high = None
        if len(logs) > 1:
            half = float(t.ppf(0.5 + _CONFIDENCE / 2, len(logs) - 1)) * stdev(logs) / math.sqrt(len(logs))
            low, high = math.exp(centre - half), math.exp(centre + half)
        latency_ms = geometric_mean(each[level] for each in rounds)
        found.append(Overhead(level, latency_ms, math.exp(centre), low, high))
    return found
