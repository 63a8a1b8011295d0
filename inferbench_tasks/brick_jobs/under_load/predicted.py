"""The figures of one job that has never run, with their intervals, or that it is overloaded."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.brick_jobs.under_load.added import Added
from inferbench_tasks.brick_jobs.under_load.capacity import Search, at_rate, capacity
from inferbench_tasks.brick_jobs.under_load.objective import Objective
from inferbench_tasks.brick_jobs.under_load.services import Services
from inferbench_tasks.brick_jobs.under_load.simulated import (
    MOST_REQUESTS,
    Seen,
    offered_rps,
    requests_of,
    simulated,
)
from inferbench_tasks.loadgen.statistics import hidden_by_failures
from inferbench_tasks.queueing.server import Batcher, Server
from inferbench_tasks.queueing.vectorised import Draws
from inferbench_tasks.submission.schema import JobSpec

#: So often the load is drawn again, each time with another error of the model.
DRAWS = 40
FIGURES = {"p50_ms": 50.0, "p95_ms": 95.0, "p99_ms": 99.0}
#: Of the draws that far apart are what an interval is of.
_INTERVAL = (2.5, 97.5)
_Z = 1.959964
#: A load that changes is simulated in all of its length, a steady one until its queue has forgotten how it began: with
#: more requests than these in all draws together, it is drawn less often, but so often at least; and not at all with
#: more in one.
MOST_SIMULATED, FEWEST_DRAWS, MOST_OF_ONE = 2_000_000, 8, 1_000_000
#: The first word of a state in which nothing was simulated, for want of time.
TOO_LONG = "not simulated"
#: So many times longer than a capacity's paths are those of percentiles: a queue is rarely at its longest.
_LONGER = 4
#: A steady load whose percentiles take more requests than these (``_requests_to_forget``) is not simulated.
MOST_OF_STEADY = 100_000
#: The first words of states without percentiles although the queue does not grow.
TOO_CLOSE, NOBODY = "too close to saturation", "no request is answered"
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
            draws=Draws(
                self.services.services(factor, self.added.batch_ns),
                self.added.rests,
                self.added.batches_after,
            ),
            mean_service_ns=lambda rows: self.services.run_ns(rows, factor, self.added.batch_ns),
        )


def predicted(told: Told, draws: int = DRAWS) -> dict[str, Any]:
    """``state``: stable, or in words that the queue grows or may, or that its load is too long to be simulated;
    percentiles are null then, whatever was simulated.

    An interval is of draws: each has an error of the model's time, by its interval, and arrivals and runs of its own.
    ``draws`` in the answer: how many; where they are fewer than were asked for, the interval is wider for it
    (``_wide``).
    """
    load, sigma = told.job.traffic, told.services.log_spread()
    objective = Objective.of(told.job.slo.bounds() if told.job.slo else {}, load.timeout_ms)
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
        "capacity_least_error_ratio": most.least_error_ratio,
        "capacity_by": str(objective),
        "capacity_arrivals": at_rate(told.arrivals, 1.0).kind,
        "saturation_rps": saturation(1.0),
        "slo_left_out": list(objective.left_out),
        "draws": None,
        "draws_wanted": draws,
    }
    if state != "stable":
        return row
    long, shorter = _requests_to_forget(told, offered, slow, objective)
    if long > MOST_OF_STEADY:
        return row | {
            "state": f"{TOO_CLOSE}: its queue is so slow to forget that it began empty that percentiles take "
            f"{long:,} requests or some, at most {MOST_OF_STEADY:,} are simulated; give a lower rate, or a shorter "
            "load.duration_s"
        }
    each = requests_of(load, told.arrivals, np.random.default_rng(seed), long)
    if each > MOST_OF_ONE:
        return row | {
            "state": f"{TOO_LONG}: its load changes and has {each:,} requests, at most {MOST_OF_ONE:,} are simulated; "
            "give a shorter load.duration_s"
        }
    wanted, draws = draws, draws_of(each, draws)
    factors = np.exp(sigma * np.random.default_rng(seed).standard_normal(draws))
    middle = max(draws // 4, min(FEWEST_DRAWS // 2, draws))
    centre = [simulated(told.server(1.0), load, told.arrivals, _rng(seed, at), long) for at in range(middle)]
    drawn = [
        simulated(told.server(float(factor)), load, told.arrivals, _rng(seed, wanted + at), long)
        for at, factor in enumerate(factors)
    ]
    row |= _figures(centre, drawn, draws < wanted, shorter, load.timeout_ms) | {"draws": draws}
    if row["error_ratio"] == 1 or not any(len(seen.latencies_ms) for seen in centre):
        row["state"] = (
            f"{NOBODY}: none comes, or none in time, in the {load.duration_s:g} s that are measured"
        )
    return row


def _requests_to_forget(
    told: Told, offered: float | None, slow: float, objective: Objective
) -> tuple[int, bool]:
    """So many requests of a steady load are simulated: with fewer, waits are too short, for the queue begins empty.

    ``slow``: the longest times that the model's interval allows. No more than the load itself has; whether it is fewer.
    """
    load, arrivals = told.job.traffic, told.arrivals
    if offered is None or not arrivals.stationary or arrivals.mean_rate_rps(load.duration_s) is None:
        return MOST_REQUESTS, False
    search = Search(told.server(slow), load, arrivals, objective, (load.seed, 0))
    own = min(offered * load.duration_s, load.max_requests or math.inf)
    long = math.ceil(max(MOST_REQUESTS, min(own, _LONGER * search.forgets_in(offered))))
    return long, long < own


def draws_of(requests: int, wanted: int) -> int:
    """How often a load of so many requests is drawn: as often as was asked for, as far as ``MOST_SIMULATED`` allows."""
    # A quarter as many again is drawn for the figures themselves.
    affordable = int(MOST_SIMULATED / 1.25 / max(1, requests))
    return min(wanted, max(FEWEST_DRAWS, affordable))


def _rng(seed: int, at: int) -> np.random.Generator:
    return np.random.default_rng([seed, at])


def _saturation_rps(told: Told, factor: float) -> float:
    rng = np.random.default_rng(told.job.traffic.seed)
    return told.server(factor).capacity_rps(told.job.traffic.samples_per_request, rng)


def _state(offered: float | None, saturation: float, least: float) -> str:
    """A closed loop has no rate: who waits for an answer asks nothing meanwhile."""
    if offered is None or offered < least:
        return "stable"
    if offered >= saturation:
        return UNSTABLE
    return f"{MAY_BE}: {offered:.4g} requests/s come, the model's interval allows {least:.4g} to be answered"


def _wide(values: list[float]) -> list[float]:
    """Where one more draw lies with 95%, of few: Student's interval of the logarithms, and no less than all of them.

    The outermost of eight hold less than 80% of what else might have been drawn.
    """
    from scipy.stats import t

    logs, count = np.log(np.maximum(values, 1e-9)), len(values)
    if count < 2:
        return [0.0, math.inf]
    far = float(t.ppf(0.975, count - 1) * logs.std(ddof=1) * math.sqrt(1 + 1 / count))
    centre = float(logs.mean())
    return [min(*values, math.exp(centre - far)), max(*values, math.exp(centre + far))]


def _figures(
    centre: list[Seen], drawn: list[Seen], few: bool, shorter: bool, timeout_ms: float
) -> dict[str, Any]:
    """``shorter``: paths are parts of the load; its percentiles are those of all of them together. The middle of parts'
    percentiles is less: few of them have the longest queues.

    A percentile that failures may belong to is withheld, as of a run. In an interval those count that failed in its
    draws, with the timeout, than which they took longer."""
    found: dict[str, Any] = {
        name: float(np.mean([getattr(seen, name) for seen in centre]))
        for name in ("utilisation_ratio", "error_ratio", "batch_requests", "throughput_rps")
    }
    middle = [seen for seen in centre if len(seen.latencies_ms)]
    for name, percent in FIGURES.items():
        values = [of for seen in drawn if (of := _of_all(seen, percent, timeout_ms)) is not None]
        if middle and values and not hidden_by_failures(percent / 100, found["error_ratio"]):
            paths = [seen.latencies_ms for seen in middle]
            paths = [np.concatenate(paths)] if shorter else paths
            found[name] = float(np.median([np.percentile(path, percent) for path in paths]))
            found[f"{name}_interval"] = (
                _wide(values) if few else [float(value) for value in np.percentile(values, _INTERVAL)]
            )
    return found


def _of_all(seen: Seen, percent: float, timeout_ms: float) -> float | None:
    """A percentile of all requests of a draw that were due; None where none was."""
    if seen.error_ratio >= 1:
        return timeout_ms
    answered = len(seen.latencies_ms)
    failed = round(answered * seen.error_ratio / (1 - seen.error_ratio))
    took_ms = np.concatenate([seen.latencies_ms, np.full(failed, timeout_ms)])
    return float(np.percentile(took_ms, percent)) if answered else None
