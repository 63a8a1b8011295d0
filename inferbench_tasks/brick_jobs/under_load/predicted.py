"""The figures of one job that has never run, with their intervals, or that it is overloaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.brick_jobs.under_load.added import Added
from inferbench_tasks.brick_jobs.under_load.capacity import Objective, at_rate, capacity
from inferbench_tasks.brick_jobs.under_load.services import Services
from inferbench_tasks.brick_jobs.under_load.simulated import Seen, offered_rps, simulated
from inferbench_tasks.queueing.server import Batcher, Server
from inferbench_tasks.submission.schema import JobSpec

#: So often the load is drawn again, each time with another error of the model.
DRAWS = 40
FIGURES = {"p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0}
#: Of the draws that far apart are what an interval is of.
_INTERVAL = (2.5, 97.5)
_Z = 1.959964
UNSTABLE = "unstable: queue grows"
MAY_BE = "may be unstable"


@dataclass(frozen=True)
class Told:
    """What is known before anything is simulated; ``arrivals``: the load's, bound to their files."""

    job: JobSpec
    arrivals: ArrivalProcess
    services: Services
    added: Added

    def server(self, factor: float) -> Server:
        """With every time of the model ``factor`` times as long as predicted."""
        serve, batching = self.job.serve, self.job.serve.batching
        return Server(
            service=self.services.service(factor, self.added.batch_ns),
            instances=serve.instances,
            batcher=Batcher(
                batching.max_batch_size, int(batching.max_delay_ms * 1e6), batching.preferred_batch_sizes
            )
            if batching
            else Batcher(),
            request_ns=self.added.rest,
            batch_idle_ns=self.added.batch_after if self.added.asleep else None,
            front_ns=self.added.front_ns,
            mean_service_ns=lambda rows: self.services.run_ns(rows, factor, self.added.batch_ns),
        )


def predicted(told: Told, draws: int = DRAWS) -> dict[str, Any]:
    """``state``: stable, or in words that the queue grows or may; percentiles are null then, whatever was simulated.

    An interval is of draws: each has an error of the model's time, by its interval, and arrivals and runs of its own.
    """
    load, sigma = told.job.load, told.services.log_spread()
    objective = Objective.of(told.job.slo.bounds() if told.job.slo else {})
    seed = load.seed
    slow, fast = float(np.exp(_Z * sigma)), float(np.exp(-_Z * sigma))
    most = capacity(told.server, (slow, fast), load, told.arrivals, objective, seed)
    saturation = partial(_saturation_rps, told)
    offered = offered_rps(load, told.arrivals, np.random.default_rng(seed))
    state = _state(offered, saturation(1.0), saturation(slow))
    row: dict[str, Any] = {
        "state": state,
        **dict.fromkeys([*FIGURES, *(f"{name}_interval" for name in FIGURES)]),
        "utilisation_ratio": None,
        "error_ratio": None,
        "batch_requests": None,
        "offered_rps": offered,
        "throughput_rps": None,
        "capacity_rps": most.rps,
        "capacity_interval_rps": list(most.interval_rps),
        "capacity_fails_at_rps": most.fails_at_rps,
        "capacity_by": str(objective),
        "capacity_arrivals": at_rate(told.arrivals, 1.0).kind,
        "saturation_rps": saturation(1.0),
        "slo_left_out": list(objective.left_out),
    }
    if state != "stable":
        return row
    factors = np.exp(sigma * np.random.default_rng(seed).standard_normal(draws))
    centre = [simulated(told.server(1.0), load, told.arrivals, _rng(seed, at)) for at in range(draws // 4)]
    drawn = [
        simulated(told.server(float(factor)), load, told.arrivals, _rng(seed, draws + at))
        for at, factor in enumerate(factors)
    ]
    return row | _figures(centre, drawn)


def _rng(seed: int, at: int) -> np.random.Generator:
    return np.random.default_rng([seed, at])


def _saturation_rps(told: Told, factor: float) -> float:
    rng = np.random.default_rng(told.job.load.seed)
    return told.server(factor).capacity_rps(told.job.load.samples_per_request, rng)


def _state(offered: float | None, saturation: float, least: float) -> str:
    """A closed loop has no rate: who waits for an answer asks nothing meanwhile."""
    if offered is None or offered < least:
        return "stable"
    if offered >= saturation:
        return UNSTABLE
    return f"{MAY_BE}: {offered:.4g} requests/s come, the model's interval allows {least:.4g} to be answered"


def _figures(centre: list[Seen], drawn: list[Seen]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    answered = [seen for seen in drawn if len(seen.latencies_ms)]
    middle = [seen for seen in centre if len(seen.latencies_ms)]
    for name, percent in FIGURES.items():
        if middle and answered:
            values = [float(np.percentile(seen.latencies_ms, percent)) for seen in answered]
            found[name] = float(np.median([np.percentile(seen.latencies_ms, percent) for seen in middle]))
            found[f"{name}_interval"] = [float(value) for value in np.percentile(values, _INTERVAL)]
    for name in ("utilisation_ratio", "error_ratio", "batch_requests", "throughput_rps"):
        found[name] = float(np.mean([getattr(seen, name) for seen in centre]))
    return found
