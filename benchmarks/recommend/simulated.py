"""Grids by a simulation of a server, request by request: nothing in it is a formula of throughput or latency.

Users in a closed loop, a front end that handles one request at a time, a dynamic batcher, instances, cores that they
share; service times scatter. What a configuration shows is counted from its completions, as a real run's figures
are, with the scatter of so many requests. Where a batch falls out of the cache it becomes slower at once (a cliff).
"""

from __future__ import annotations

import heapq
import math
import random
from typing import Any

import numpy as np

from benchmarks.recommend.recorded import Figures
from benchmarks.recommend.space import MAX_BATCH_SIZE, Point

#: Requests that are simulated, and those of them at the start that don't count.
_REQUESTS, _WARMUP = 700, 100


def machine(rng: random.Random, axes: dict[str, list[Any]]) -> dict[str, Any]:
    """A machine and its servers, at random."""
    sample_ms = 10 ** rng.uniform(-1.0, 0.9)
    return {
        "cores": max(axes["threads"]) * rng.choice([1, 1, 2]),
        "servers": {
            name: {
                "call_ms": sample_ms * 10 ** rng.uniform(-0.7, 0.6),
                "sample_ms": sample_ms * 10 ** rng.uniform(-0.25, 0.25),
                "serial_share": rng.uniform(0.02, 0.6),
                "cache_samples": rng.choice([4, 16, 64, 1000]),
                "spill": rng.uniform(1.1, 2.0),
                "memory_mib": rng.uniform(80, 400),
                "switch_ms": sample_ms * 10 ** rng.uniform(-2.0, -0.3),
            }
            for name in axes["server"]
        },
        "front_ms": 10 ** rng.uniform(-1.0, 0.1),
        "front_sample_ms": 10 ** rng.uniform(-2.5, -0.8),
        "scatter": rng.uniform(0.03, 0.35),
    }


def figures(machine: dict[str, Any], point: Point, rng: random.Random) -> Figures:
    """What one configuration shows; ``rng`` drives its scatter."""
    server, users, size = machine["servers"][point["server"]], point["concurrency"], point["batch_size"]
    delay_ms = None if point["delay_ms"] == "off" else float(point["delay_ms"])
    most = 1 if delay_ms is None else max(1, MAX_BATCH_SIZE // size)
    front_free = 0.0
    ready: list[tuple[float, float]] = []  # (when it is through the front end, when it was sent)
    for _ in range(users):
        front_free += machine["front_ms"] + machine["front_sample_ms"] * size
        ready.append((front_free, 0.0))
    free = [0.0] * point["instances"]
    heapq.heapify(ready)
    heapq.heapify(free)
    done: list[tuple[float, float]] = []  # (when, latency)
    work_ms = 0.0
    while len(done) < _REQUESTS:
        start = max(free[0], ready[0][0])
        if delay_ms:  # the batcher waits for more, unless it has as many as it takes or as there are
            due = max(start, ready[0][0] + delay_ms)
            nth = heapq.nsmallest(most, ready)
            start = max(start, min(due, nth[-1][0])) if len(nth) == most else due
        taken: list[tuple[float, float]] = []
        while ready and len(taken) < most and ready[0][0] <= start:
            taken.append(heapq.heappop(ready))
        running = 1 + sum(moment > start for moment in free[1:])
        took_ms = _service_ms(machine, server, point["threads"], running, size * len(taken))
        took_ms *= math.exp(rng.gauss(0, machine["scatter"]))
        work_ms += took_ms * min(point["threads"], machine["cores"] / running)
        end = start + took_ms
        heapq.heapreplace(free, end)
        for _, sent in taken:
            done.append((end, end - sent))
            front_free = max(front_free, end) + machine["front_ms"] + machine["front_sample_ms"] * size
            heapq.heappush(ready, (front_free, end))
    kept = sorted(done)[_WARMUP:]
    seconds = (kept[-1][0] - kept[0][0]) / 1e3
    p50, p95, p99 = np.quantile([latency for _, latency in kept], [0.5, 0.95, 0.99]).tolist()
    rate = (len(kept) - 1) / seconds
    return {
        "throughput_samples_per_s": rate * size,
        "throughput_rps": rate,
        "mean_ms": sum(latency for _, latency in kept) / len(kept),
        "p50_ms": p50,
        "p95_ms": p95,
        "p99_ms": p99,
        "cpu_ms_per_sample": work_ms / (len(done) * size) + machine["front_ms"] / size,
        "rss_mib": server["memory_mib"] * (1 + 0.4 * point["instances"]),
    }


def _service_ms(
    machine: dict[str, Any], server: dict[str, Any], threads: int, running: int, samples: int
) -> float:
    """A call of so many samples beside ``running - 1`` others: Amdahl's law, shared cores, a cache it may miss."""
    mine = min(threads, machine["cores"] / running)
    share = server["serial_share"]
    took = (server["call_ms"] + server["sample_ms"] * samples) * (share + (1 - share) / mine)
    if samples * running > server["cache_samples"]:
        took *= server["spill"]
    return float(took + server["switch_ms"] * max(0.0, threads * running / machine["cores"] - 1) * threads)
