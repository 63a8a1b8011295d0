"""What has to be kept at a rate, of the figures that are predicted, and how small a share can be judged at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from inferbench_tasks.brick_jobs.under_load.simulated import MOST_REQUESTS

PERCENTS = {"p50_ms": 50.0, "p90_ms": 90.0, "p95_ms": 95.0, "p99_ms": 99.0, "p999_ms": 99.9}
#: Requests of the longest path on which an objective is looked at.
LONGEST = 40_000
#: Where fewer requests of the longest path may fail, many a path has none that does though more would in the long run:
#: the objective seems to hold where it does not.
_LEAST_BEYOND = 10
#: The least share of requests that may fail of which a capacity is told, but for none at all.
LEAST_ERROR_RATIO = _LEAST_BEYOND / LONGEST


@dataclass(frozen=True)
class Objective:
    """``bounds``: p99_ms and the like -> ms; ``left_out``: figures that are bounded, and not predicted.

    ``error_ratio``: the share of requests that may fail, which are those without an answer after ``timeout_ms``; None
    where nothing is asked of it. That none may is asked of each simulated path; in the long run some do at any rate.
    """

    bounds: Mapping[str, float]
    left_out: tuple[str, ...]
    error_ratio: float | None = None
    timeout_ms: float = math.inf

    @classmethod
    def of(cls, bounds: Mapping[str, float], timeout_ms: float) -> Objective:
        """Those of a submission's ``slo``, and its ``load.timeout_ms``."""
        known = {name: bound for name, bound in bounds.items() if name in PERCENTS}
        others = [name for name in bounds if name not in PERCENTS and name != "error_ratio"]
        errors = bounds.get("error_ratio")
        # That all may fail is kept by every rate.
        return cls(known, tuple(others), None if errors is None or errors >= 1 else errors, timeout_ms)

    @cached_property
    def percentiles_ms(self) -> Mapping[float, float]:
        """Percent of all requests -> ms within which they are answered; empty where nothing is asked.

        A share e that may fail is the percentile 100 (1 - e) within the timeout. One that fails is above every bound.
        """
        limits = {PERCENTS[name]: bound for name, bound in self.bounds.items()}
        if self.error_ratio is not None:
            percent = 100 * (1 - self.error_ratio)
            limits[percent] = min(self.timeout_ms, limits.get(percent, math.inf))
        return limits

    def __str__(self) -> str:
        parts = [f"{name} <= {bound:g}" for name, bound in self.bounds.items()]
        if self.error_ratio is not None:
            # 0 is no share that could be measured; what it is asked of belongs to it.
            of = "" if self.error_ratio else f", of {MOST_REQUESTS:,} to {LONGEST:,} simulated requests"
            parts.append(f"error_ratio <= {self.error_ratio:g} (timeout_ms {self.timeout_ms:g}{of})")
        return ", ".join(parts) or "saturation"
