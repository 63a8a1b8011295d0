"""A load as its submission describes it, through the model of our server's queue."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.arrivals.base import ArrivalProcess
from inferbench_tasks.arrivals.closed import ClosedProcess
from inferbench_tasks.queueing.outcome import Outcome
from inferbench_tasks.queueing.server import Server
from inferbench_tasks.queueing.simulate import closed_loop, open_loop
from inferbench_tasks.queueing.tolerance import Tolerance
from inferbench_tasks.submission.schema import LoadSpec

#: Of a load that is the same all the time so many requests are simulated at most.
MOST_REQUESTS = 10_000
#: A load that changes is looked at in so many parts of its length.
_PARTS = 10


@dataclass(frozen=True)
class Seen:
    """``latencies_ms``: of the measured requests that were answered in time; ``error_ratio``: the share that was not.

    ``batch_requests``: in a batch, in the mean; ``throughput_rps``: answers per second. All of the measurement only.
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


def requests_of(
    load: LoadSpec, arrivals: ArrivalProcess, rng: np.random.Generator, most_requests: int = MOST_REQUESTS
) -> int:
    """How many requests ``simulated`` has of this load, warm-up included, about."""
    if isinstance(arrivals, ClosedProcess):
        return 2 * most_requests
    if arrivals.stationary and (rate := arrivals.mean_rate_rps(load.duration_s)):
        length_s = min(load.duration_s, most_requests / rate)
        return math.ceil(rate * (length_s + min(load.warmup_s, length_s)))
    before = len(arrivals.warmup().offsets_ns(load.warmup_s, rng)) if load.warmup_s else 0
    count = len(arrivals.offsets_ns(load.duration_s, rng))
    return before + (count if load.max_requests is None else min(count, load.max_requests))


def simulated(
    server: Server,
    load: LoadSpec,
    arrivals: ArrivalProcess,
    rng: np.random.Generator,
    most_requests: int = MOST_REQUESTS,
) -> Seen:
    """Warm-up and measurement, one after the other. ``arrivals``: those of the load, bound to their files.

    The measurement ends as a real one does: with the load, or when request ``max_requests`` + 1 would leave.
    """
    rows, warm_s, most = load.samples_per_request, load.warmup_s, load.max_requests
    offsets: NDArray[Any]
    if isinstance(arrivals, ClosedProcess):
        most_s = most_requests / _most_rps(server, arrivals, rows, server.capacity_rps(rows, rng, 100))
        length_s = max(min(load.duration_s, most_s), 1e-9)
        warm_s = min(warm_s, length_s)
        outcome = closed_loop(
            server, arrivals.users, arrivals.think_time_ns, (warm_s + length_s) * 1e9, rng, rows
        )
        offsets = outcome.sent_ns[outcome.sent_ns >= warm_s * 1e9] - warm_s * 1e9
    else:
        before, offsets, warm_s, length_s = _moments(load, arrivals, rng, most_requests)
        outcome = open_loop(server, np.concatenate([before, offsets[:most] + warm_s * 1e9]), rng, rows)
    if most is not None and most < len(offsets):
        length_s = max(float(offsets[most]), 1.0) / 1e9
    return _seen(outcome, load, warm_s * 1e9, length_s * 1e9)


#: A load is ended as soon as a percentile is that far above its bound for certain.
_FAR = 1.3


def worst_ratio(
    server: Server,
    load: LoadSpec,
    arrivals: ArrivalProcess,
    rng: np.random.Generator,
    most_requests: int,
    bounds_ms: Mapping[float, float],
) -> float:
    """The largest of the percentiles over its bound (percent -> ms), of what is measured of a load with moments: 1 or
    less where all hold. Infinite where one is ``_FAR`` times its bound, or of those whom the server refused.

    Percentiles are of all requests that were due, answered in time or not: at most 100 - percent of them are above the
    bound where it holds, as runs are judged (``loadgen.objective``).
    """
    before, offsets, warm_s, length_s = _moments(load, arrivals, rng, most_requests)
    sent_ns = np.concatenate([before, offsets + warm_s * 1e9])
    begin_ns, end_ns = warm_s * 1e9, (warm_s + length_s) * 1e9
    due = int(((sent_ns >= begin_ns) & (sent_ns < end_ns)).sum())
    if not due:
        return math.inf
    tolerance = Tolerance({percent: _FAR * ms * 1e6 for percent, ms in bounds_ms.items()}, begin_ns, due)
    outcome = open_loop(server, sent_ns, rng, load.samples_per_request, tolerance)
    if tolerance.exceeded:
        return math.inf
    answered_ns = outcome.latencies_ns[_within(outcome.sent_ns, begin_ns, end_ns)]
    refused = int(_within(outcome.refused_ns, begin_ns, end_ns).sum())
    took_ms = np.concatenate([answered_ns / 1e6, np.full(refused, math.inf)])
    # A request's own latency, for there is no line to one that has none.
    return max(
        float(np.percentile(took_ms, percent, method="inverted_cdf")) / ms
        for percent, ms in bounds_ms.items()
    )


def _within(at_ns: NDArray[np.float64], begin_ns: float, end_ns: float) -> NDArray[np.bool_]:
    return (at_ns >= begin_ns) & (at_ns < end_ns)


def _moments(
    load: LoadSpec, arrivals: ArrivalProcess, rng: np.random.Generator, most_requests: int
) -> tuple[NDArray[Any], NDArray[Any], float, float]:
    """Of a load that is no closed loop: when the warm-up's requests leave and, from its end on, the measured ones, ns;
    how long both are, s."""
    warm_s, length_s = load.warmup_s, load.duration_s
    if arrivals.stationary and (rate := arrivals.mean_rate_rps(length_s)):
        length_s = min(length_s, most_requests / rate)
        warm_s = min(warm_s, length_s)
    before = arrivals.warmup().offsets_ns(warm_s, rng) if warm_s else np.zeros(0)
    offsets = arrivals.offsets_ns(length_s, rng)
    return before, offsets, warm_s, arrivals.lasts_s(length_s)


def _most_rps(server: Server, users: ClosedProcess, rows: int, capacity_rps: float) -> float:
    """What users send at most: no more than is answered, and each nothing while it waits and thinks."""
    rng = np.random.default_rng(0)  # the load's own numbers stay what they are
    alone_ns = float(np.mean([server.service(rows, rng) for _ in range(100)]))
    return min(capacity_rps, users.users / max(users.think_time_ns + alone_ns, 1.0) * 1e9)


def _seen(outcome: Outcome, load: LoadSpec, warm_ns: float, length_ns: float) -> Seen:
    end_ns = warm_ns + length_ns
    measured = partial(_within, begin_ns=warm_ns, end_ns=end_ns)
    latencies_ms = outcome.latencies_ns[measured(outcome.sent_ns)] / 1e6
    in_time = latencies_ms[latencies_ms <= load.timeout_ms]
    due = len(latencies_ms) + int(measured(outcome.refused_ns).sum())
    batches = outcome.batches[measured(outcome.batch_taken_ns)]
    return Seen(
        latencies_ms=in_time,
        error_ratio=1 - len(in_time) / due if due else 0.0,
        utilisation_ratio=outcome.utilisation(warm_ns, end_ns),
        batch_requests=float(batches.mean()) if len(batches) else 0.0,
        throughput_rps=len(in_time) / length_ns * 1e9,
    )
