"""Honest record sets of varied shape: none of them may be refused, however odd the server or busy the machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.load.record_sets import (
    RecordSet,
    bimodal,
    bursts,
    closed_set,
    constant,
    exact,
    gamma,
    heavy,
    lognormal,
    offline_set,
    open_set,
    pausing,
    poisson,
    trace,
    usage_of,
)


def honest() -> Iterator[RecordSet]:
    """Forty and more; the rows of one are in no order, which changes nothing."""
    yield from _open_loops()
    yield from _closed_loops()
    for requests, law in ((200, exact(5)), (3000, lognormal(20)), (5000, heavy(8)), (1000, pausing(10))):
        yield offline_set(f"offline, {requests} requests, {law.__qualname__.split('.')[0]}", requests, law)
    base = open_set("poisson", poisson(300), lognormal(10), shards=3)
    rows = np.random.default_rng(1).permutation(len(base.columns["status"]))
    yield base.of_rows("rows in no order", rows)


def _open_loops() -> Iterator[RecordSet]:
    for rate in (5.0, 50.0, 500.0, 3000.0):
        yield open_set(f"poisson {rate:g}/s", poisson(rate), lognormal(12))
        yield open_set(f"constant {rate:g}/s, 2 senders", constant(rate), exact(7), shards=2)
    for variation in (0.3, 2.0, 4.0):
        yield open_set(f"gaps with a variation of {variation:g}", gamma(300, variation), lognormal(15))
    for size in (5, 30):
        yield open_set(f"bursts of {size}", bursts(0.25, size), lognormal(15), slots=4)
    yield open_set("trace", trace(), lognormal(10))
    yield open_set("trace, 3 senders", trace(2), heavy(10), shards=3)
    yield open_set("slow server", poisson(20), lognormal(400, 0.2))
    yield open_set("fast server", poisson(500), exact(0.3))
    yield open_set("heavy tail", poisson(300), heavy(10))
    yield open_set("two kinds of answers", poisson(300), bimodal(10))
    yield open_set("a server that pauses", poisson(200), pausing(10))
    yield open_set("a server with a queue", poisson(180), lognormal(10), slots=2)
    yield open_set("a saturated server", poisson(220), exact(10), slots=2)
    yield open_set("timeouts", poisson(300), lognormal(10), failing={"timeout": 0.005})
    yield open_set("errors", poisson(300), lognormal(10), failing={"http_5xx": 0.006, "reset": 0.002})
    yield open_set("a busy machine", poisson(300), lognormal(40), busy=4)
    yield open_set("more senders than requests", np.linspace(0.1, 9.9, 12), lognormal(10), shards=16)
    stalls = tuple((200.0 + 333 * k, 12.0) for k in range(29))
    yield replace(
        open_set("short stalls of the sender", poisson(200), lognormal(20)), usages=usage_of(1, stalls)
    )


def _closed_loops() -> Iterator[RecordSet]:
    for users, shards in ((1, 1), (4, 1), (40, 20), (64, 3)):
        yield closed_set(f"closed loop, {users} users, {shards} senders", users, lognormal(20), shards=shards)
    for think_ms in (5.0, 100.0):
        yield closed_set(
            f"closed loop, thinking {think_ms:g} ms", 12, lognormal(20), think_ms=think_ms, shards=2
        )
    yield closed_set("closed loop, heavy tail", 16, heavy(15))
    yield closed_set("closed loop, two kinds of answers", 8, bimodal(15))
    yield closed_set("closed loop, a server that pauses", 8, pausing(15))
    yield closed_set("closed loop, slow server", 32, lognormal(900, 0.05))
    yield closed_set("closed loop, quota", 8, lognormal(20), max_requests=1000)
    yield closed_set("closed loop, quota of two senders", 8, lognormal(20), shards=2, max_requests=1501)
    yield closed_set("closed loop, quota, thinking", 9, lognormal(20), think_ms=30, max_requests=1200)
    yield closed_set("closed loop, errors", 8, lognormal(20), failing={"http_5xx": 0.005})
    stalls = tuple((150.0 + 500 * k, 20.0) for k in range(19))
    yield replace(closed_set("closed loop, short stalls", 8, lognormal(30)), usages=usage_of(1, stalls))
