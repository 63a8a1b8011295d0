"""The highest rate at which an objective holds; without one, from which on the queue only grows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.arrivals.poisson import Poisson
from inferbench_tasks.brick_jobs.under_load.simulated import simulated
from inferbench_tasks.queueing.server import Server
from inferbench_tasks.submission.schema import LoadSpec

#: A rate is found to within this share of it.
WITHIN_RATIO = 0.01
#: Below this share of the saturation rate requests hardly meet: an objective that fails there fails alone.
_LEAST_RATIO = 0.01
PERCENTS = {"p50_ms": 50.0, "p90_ms": 90.0, "p95_ms": 95.0, "p99_ms": 99.0, "p999_ms": 99.9}


@dataclass(frozen=True)
class Objective:
    """``bounds``: p99_ms and the like -> ms; ``left_out``: figures that are bounded, and not predicted."""

    bounds: Mapping[str, float]
    left_out: tuple[str, ...]

    @classmethod
    def of(cls, bounds: Mapping[str, float]) -> Objective:
        """Those of a submission's ``slo``. That nothing may fail is kept by every rate below the capacity."""
        known = {name: bound for name, bound in bounds.items() if name in PERCENTS}
        others = [name for name in bounds if name not in PERCENTS and name != "error_ratio"]
        return cls(known, tuple(others))

    def __str__(self) -> str:
        return ", ".join(f"{name} <= {bound:g}" for name, bound in self.bounds.items()) or "saturation"


def at_rate(arrivals: ArrivalProcess, rate_rps: float) -> ArrivalProcess:
    """The same at another rate; Poisson's where the kind has none that can be chosen."""
    if "rate_rps" in type(arrivals).model_fields:
        return arrivals.model_copy(update={"rate_rps": rate_rps})
    return Poisson(kind="poisson", rate_rps=rate_rps)


def capacity_rps(
    server: Server, load: LoadSpec, arrivals: ArrivalProcess, objective: Objective, seed: int
) -> float:
    """Requests per second; 0 where the objective does not even hold for requests that hardly meet.

    The saturation rate bounds it: at that rate a queue grows, whatever the latencies of a short load say.
    """
    most = server.capacity_rps(load.samples_per_request, np.random.default_rng(seed))
    if not objective.bounds:
        return most
    low, high = most * _LEAST_RATIO, most

    def holds(rate_rps: float) -> bool:
        load_at = load.model_copy(update={"max_requests": None, "duration_s": 3600.0})
        seen = simulated(server, load_at, at_rate(arrivals, rate_rps), np.random.default_rng(seed))
        if seen.error_ratio or not len(seen.latencies_ms):
            return False
        return all(
            float(np.percentile(seen.latencies_ms, PERCENTS[name])) <= bound
            for name, bound in objective.bounds.items()
        )

    if not holds(low):
        return 0.0
    while high / low > 1 + WITHIN_RATIO:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
