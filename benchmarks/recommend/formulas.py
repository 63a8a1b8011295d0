"""Grids by formulas of a server: fixed and per-sample work, how threads scale, what too many of them cost, whether
batching pays, what the front end can take, and how rugged all that is (a deviation of each configuration that no
axis explains).
"""

from __future__ import annotations

import math
import random
from typing import Any

from benchmarks.recommend.recorded import Figures
from benchmarks.recommend.space import MAX_BATCH_SIZE, Point


def machine(rng: random.Random, axes: dict[str, list[Any]]) -> dict[str, Any]:
    """A machine and its servers, at random."""
    each_ms = 10 ** rng.uniform(-1.0, 1.0)
    return {
        "cores": max(axes["threads"]) * rng.choice([1, 1, 2]),
        "servers": {
            name: {
                "fixed_ms": each_ms * 10 ** rng.uniform(-1.0, 0.7),
                "each_ms": each_ms * 10 ** rng.uniform(-0.3, 0.3),
                "scaling": rng.uniform(0.2, 0.95),
                "memory_mib": rng.uniform(80, 400),
            }
            for name in axes["server"]
        },
        "crowding": rng.uniform(0.0, 0.6),
        "front_ms": 10 ** rng.uniform(-1.0, 0.2),
        "per_sample_front_ms": 10 ** rng.uniform(-2.5, -0.7),
        "tail": rng.uniform(1.2, 2.5),
        "rugged": rng.choice([0.0, 0.015, 0.03]),
    }


def figures(machine: dict[str, Any], point: Point, rng: random.Random) -> Figures:
    """Closed loop: work by the model, latency by Little's law, the tail by how full the server is."""
    server, cores = machine["servers"][point["server"]], machine["cores"]
    size, users, instances = point["batch_size"], point["concurrency"], point["instances"]
    batches = point["delay_ms"] != "off"
    merged = min(max(1, MAX_BATCH_SIZE // size), max(1, round(users / instances))) if batches else 1
    busy = min(instances, max(1, users // merged))
    threads = busy * point["threads"]
    crowd = max(1.0, threads / cores) * (1 + machine["crowding"] * max(0.0, threads / cores - 1))
    work_ms = (
        server["fixed_ms"] + server["each_ms"] * size * merged / point["threads"] ** server["scaling"]
    ) * crowd
    waited_ms = float(point["delay_ms"]) if batches and merged * size < MAX_BATCH_SIZE else 0.0
    front_ms = machine["front_ms"] + machine["per_sample_front_ms"] * size
    rate = (
        min(busy * merged / (work_ms + waited_ms), 1 / front_ms, users / (work_ms + waited_ms + front_ms))
        * 1e3
    )
    rate *= math.exp(rng.gauss(0, machine["rugged"]))
    mean_ms = users / rate * 1e3
    tail = 1 + (machine["tail"] - 1) * (1 - math.exp(-users / (2 * busy * merged))) * crowd
    p99_ms = mean_ms * tail * math.exp(rng.gauss(0, 1.5 * machine["rugged"]))
    samples = rate * size
    cpu_ms = (work_ms / merged * point["threads"] ** 0.9 + front_ms) / size
    return {
        "throughput_samples_per_s": samples,
        "throughput_rps": rate,
        "mean_ms": mean_ms,
        "p50_ms": 0.95 * mean_ms,
        "p95_ms": 0.5 * (mean_ms + p99_ms),
        "p99_ms": p99_ms,
        "cpu_ms_per_sample": cpu_ms * math.exp(rng.gauss(0, machine["rugged"])),
        "rss_mib": server["memory_mib"] * (1 + 0.3 * instances),
    }
