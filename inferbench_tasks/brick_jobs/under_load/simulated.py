"""A load as its submission describes it, through the model of our server's queue."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.arrivals.closed import ClosedProcess
from inferbench_tasks.queueing.outcome import Outcome
from inferbench_tasks.queueing.server import Server
from inferbench_tasks.queueing.simulate import closed_loop, open_loop
from inferbench_tasks.submission.schema import LoadSpec

#: Of a load that is the same all the time so many requests are simulated at most.
MOST_REQUESTS = 10_000
#: A load that changes is looked at in so many parts of its length.
_PARTS = 10


@dataclass(frozen=True)
class Seen:
    """``latencies_ms``: of the measured requests that were answered in time; ``error_ratio``: the share that was not.

    ``rows``: requests in a batch, in the mean; ``throughput_rps``: answers per second of the measurement.
    """

    latencies_ms: NDArray[np.float64]
    error_ratio: float
    utilisation_ratio: float
    batch_requests: float
    throughput_rps: float


def offered_rps(load: LoadSpec, arrivals: ArrivalProcess, rng: np.random.Generator) -> float | None:
    """The rate that comes, the highest of ``_PARTS`` parts where it changes; None of a closed loop."""
    if isinstance(arrivals, ClosedProcess):
        return None
    if arrivals.stationary and (rate := arrivals.mean_rate_rps(load.duration_s)) is not None:
        return rate
    lasts_s = arrivals.lasts_s(load.duration_s)
    counts, _ = np.histogram(arrivals.offsets_ns(load.duration_s, rng), _PARTS, (0, lasts_s * 1e9))
    return float(counts.max()) / (lasts_s / _PARTS)


def simulated(server: Server, load: LoadSpec, arrivals: ArrivalProcess, rng: np.random.Generator) -> Seen:
    """Warm-up and measurement, one after the other. ``arrivals``: those of the load, bound to their files."""
    rows, warm_s = load.samples_per_request, load.warmup_s
    if isinstance(arrivals, ClosedProcess):
        most_s = MOST_REQUESTS / server.capacity_rps(rows, rng, 100)
        length_s = max(min(load.duration_s, most_s), 1e-9)
        warm_s = min(warm_s, length_s)
        outcome = closed_loop(
            server, arrivals.users, arrivals.think_time_ns, (warm_s + length_s) * 1e9, rng, rows
        )
    else:
        length_s = load.duration_s
        if arrivals.stationary and (rate := arrivals.mean_rate_rps(length_s)):
            length_s = min(length_s, MOST_REQUESTS / rate)
            warm_s = min(warm_s, length_s)
        before = arrivals.warmup().offsets_ns(warm_s, rng) if warm_s else np.zeros(0)
        offsets = np.concatenate([before, arrivals.offsets_ns(length_s, rng) + warm_s * 1e9])
        outcome = open_loop(server, offsets, rng, rows)
    return _seen(outcome, load, warm_s, length_s)


def _seen(outcome: Outcome, load: LoadSpec, warm_s: float, length_s: float) -> Seen:
    measured = np.flatnonzero(outcome.sent_ns >= warm_s * 1e9)[: load.max_requests]
    latencies_ms = outcome.latencies_ns[measured] / 1e6
    in_time = latencies_ms[latencies_ms <= load.timeout_ms]
    due = len(measured) + outcome.refused
    return Seen(
        latencies_ms=in_time,
        error_ratio=1 - len(in_time) / due if due else 0.0,
        utilisation_ratio=outcome.utilisation(),
        batch_requests=float(outcome.batches.mean()) if len(outcome.batches) else 0.0,
        throughput_rps=len(in_time) / length_s,
    )
