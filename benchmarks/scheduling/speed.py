"""Gate 12: how fast the default policy is with 100,000 queued jobs, 1,000 devices and 1,000 tenants."""

from __future__ import annotations

import gc
import random
import time
from dataclasses import dataclass

from inferbench_tasks.scheduling import events as ev
from inferbench_tasks.scheduling.decisions import Place, Preempt
from inferbench_tasks.scheduling.index import Index
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.scheduling.policies import DEFAULT_POLICY, POLICIES

TYPES = ("a", "b", "c", "d")
#: Adding one job takes about as long as reading the clock twice, so blocks are timed.
BLOCK = 100


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds that this thread computed, each of one call: what else the machine does is left out."""

    add_s: list[float]
    fill_s: float
    filled: int
    decide_s: list[float]


def quantile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]


def measure(
    seed: int, *, jobs: int = 100_000, devices: int = 1000, tenants: int = 1000, ends: int = 3000
) -> Speed:
    """Fill an index, fill its devices, then let jobs end one by one, a new one coming for each that ends.

    A mix that uses everything: four device types, 60% of the jobs pinned to one, a fifth of the devices in nodes of
    four, 3% gangs, priorities, deadlines, preemptible jobs.
    """
    rng = random.Random(seed)
    policy = POLICIES.load(DEFAULT_POLICY)()
    index = policy.new_index()
    left, number = devices, 0
    while left:
        size = min(4 if number % 20 == 0 else 1, left)
        index.apply(ev.NodeUp(0.0, f"node-{number:04d}", TYPES[number % 4], size))
        left, number = left - size, number + 1
    specs = [_job(rng, i, tenants) for i in range(jobs + ends)]
    gc.collect()
    gc.freeze()  # What stands here is the benchmark's input; the collector's work on the index is measured.
    add_s = [_timed_adds(index, specs[first : first + BLOCK]) for first in range(0, jobs, BLOCK)]
    now = 3600.0
    start = time.thread_time()
    placed = [d for d in policy.decide(index, now) if isinstance(d, Place)]
    fill_s = time.thread_time() - start
    running: list[str] = []
    _grant(index, placed, now, running)
    decide_s: list[float] = []
    for spec in specs[jobs:]:
        now += 1.0
        ended = running.pop(rng.randrange(len(running)))
        index.apply(ev.Finished(now, ended))
        index.apply(ev.Submitted(spec.submit_s, spec))
        start = time.thread_time()
        decisions = policy.decide(index, now)
        decide_s.append(time.thread_time() - start)
        _grant(index, [d for d in decisions if isinstance(d, Place)], now, running)
        for decision in decisions:
            if isinstance(decision, Preempt):
                index.apply(ev.InfraFailed(now, decision.job_id, charged=False))
                running.remove(decision.job_id)
    gc.unfreeze()
    return Speed(add_s, fill_s, len(placed), decide_s)


def _timed_adds(index: Index, specs: list[QueuedJob]) -> float:
    events = [ev.Submitted(spec.submit_s, spec) for spec in specs]
    start = time.thread_time()
    for event in events:
        index.apply(event)
    return (time.thread_time() - start) / len(events)


def _grant(index: Index, placed: list[Place], now: float, running: list[str]) -> None:
    for place in placed:
        index.apply(ev.LeaseGranted(now, place.job_id, place.node_id, place.devices))
        running.append(place.job_id)


def _job(rng: random.Random, number: int, tenants: int) -> QueuedJob:
    pinned = rng.random() < 0.6
    return QueuedJob(
        job_id=f"job-{number:07d}",
        tenant=f"tenant-{rng.randrange(tenants)}",
        spec_hash=f"spec-{rng.randrange(5000)}",
        submit_s=rng.uniform(0.0, 3600.0),
        est_s=rng.lognormvariate(5.7, 1.4),
        limit_s=float("inf"),
        device_types=frozenset({rng.choice(TYPES)}) if pinned else frozenset(TYPES),
        n_devices=rng.choice((2, 4)) if rng.random() < 0.03 else 1,
        priority=rng.choice((0, 0, 0, 0, 1)),
        deadline_s=rng.uniform(2e5, 4e5) if rng.random() < 0.02 else None,
        preemptible=rng.random() < 0.02,
    )
