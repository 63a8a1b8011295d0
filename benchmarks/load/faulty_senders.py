"""Whole record sets of senders that did not do what they should: late, asleep, stopped, held up, out of CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.load.record_sets import (
    MS,
    TIMES,
    RecordSet,
    S,
    bursts,
    closed_set,
    constant,
    exact,
    open_set,
    pausing,
    poisson,
    usage_of,
)


def senders_at_fault() -> Iterator[RecordSet]:
    """Records that are whole, of senders that did not do what they should."""
    late = open_set("poisson", poisson(500), exact(0.43))
    intended = np.asarray(late.columns["intended_ns"])
    asleep = np.maximum(0, 93 * MS // 10 - intended % (17 * MS))
    yield _later(late, "sender asleep 9.3 of every 17 ms", asleep)
    stopped = open_set("constant", constant(100), exact(5))
    at = stopped.window_ns[0] + 4 * S
    intended = np.asarray(stopped.columns["intended_ns"])
    yield _later(
        stopped, "sender stopped for 200 ms", np.clip(at + 200 * MS - intended, 0, None) * (intended >= at)
    )
    ticking = open_set("poisson", poisson(2000), exact(50))
    intended = np.asarray(ticking.columns["intended_ns"])
    yield _later(ticking, "sent in ticks of 25 ms", -intended % (25 * MS))
    slower = open_set("constant", constant(1000), exact(5))
    intended = np.asarray(slower.columns["intended_ns"])
    yield _later(slower, "600/s sent of 1000/s", (intended - slower.window_ns[0]).clip(0) * 2 // 3)
    loop = closed_set("closed loop, 4 users", 4, pausing(10, 95))
    stalls = tuple((at + 400.0, 95.0) for at in range(0, 10_000, 800))
    yield replace(loop.changed("held up 95 ms every 0.8 s"), usages=usage_of(1, stalls))
    busy = open_set("poisson", poisson(200), exact(5))
    yield replace(
        busy.changed("sender out of CPU"), usages=(busy.usages[0].model_copy(update={"cpu_s": 9.5}),)
    )
    spread = open_set("bursts", bursts(0.5, 40), exact(20))
    intended = np.asarray(spread.columns["intended_ns"])
    yield _later(spread, "bursts smoothed out", np.arange(len(intended)) % 40 * 12 * MS)


def _later(base: RecordSet, name: str, later_ns: NDArray[np.int64]) -> RecordSet:
    moved = {key: np.asarray(base.columns[key]) + later_ns for key in TIMES[1:]}
    return base.changed(name, **moved)
