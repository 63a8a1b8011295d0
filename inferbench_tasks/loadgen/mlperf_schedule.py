"""When MLPerf LoadGen was to issue its queries, by its settings alone, not by when it did.

Its server scenario draws exponential gaps from a Mersenne twister (``std::mt19937``) with the seed of its schedule and
issues the first query at its start. The same numbers are drawn here, so that a query that it issued late is late by
its own schedule. It does not say when it started: its start is taken to be the latest by which no query left early.
In its single and multi stream scenarios a query is due when the one before has ended (see ``mlperf_driver``); its
offline scenario has one moment for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.evidence import ClosedPlan, OpenPlan
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.spool import Spool

#: Queries of a closed warm-up are numbered below it: nobody knows how many there will be.
_AFTER_WARMUP = 1_000_000_000
#: LoadGen ends when its time is over on the clock: of the asked queries so many may be missing at the end.
_MISSING_AT_END_RATIO = 0.01


def seeds(seed: int) -> tuple[int, int, int]:
    """LoadGen's seeds of data set, sample order and schedule; it takes 64 bits without a sign."""
    return seed % 2**64, (seed + 1) % 2**64, (seed + 2) % 2**64


def first_query_id(plan: LoadPlan) -> int:
    """The number of LoadGen's first query."""
    first = plan.segments[-1].first_request_id
    return max(first, _AFTER_WARMUP) if plan.measure_start_ns else first


def server_offsets_ns(rate_rps: float, schedule_seed: int, count: int) -> NDArray[np.int64]:
    """When the first ``count`` queries of the server scenario are due, ns after its start; the first at 0.

    ``std::exponential_distribution`` of libstdc++: -log(1 - u) / rate, with u of two draws of 32 bits, the low ones
    first; each gap is cut to whole ns.
    """
    # Numpy seeds as std::mt19937 does for RandomState alone.
    twister = np.random.RandomState(schedule_seed % 2**32)._bit_generator
    draws = twister.random_raw(2 * count).astype(np.float64)
    uniform = (draws[0::2] + draws[1::2] * 2.0**32) / 2.0**64
    gaps = (-np.log1p(-uniform) / rate_rps * 1e9).astype(np.int64)
    return np.concatenate([[0], np.cumsum(gaps[:-1])]).astype(np.int64)


def asked_offsets_ns(plan: LoadPlan, recorded: int) -> NDArray[np.int64]:
    """The server scenario's queries: those that were recorded, and 99% of those that were asked for at least."""
    assert plan.mlperf is not None
    if plan.mlperf.accuracy:  # it ends with the samples, whenever that is
        return server_offsets_ns(plan.mlperf.rate_rps, seeds(plan.seed)[2], recorded)
    duration_ns = plan.measure_end_ns - plan.measure_start_ns
    count = max(recorded, math.ceil(plan.mlperf.rate_rps * duration_ns / 1e9 * 1.5) + 100)
    offsets = server_offsets_ns(plan.mlperf.rate_rps, seeds(plan.seed)[2], count)
    due = int(np.count_nonzero(offsets < duration_ns))
    if plan.mlperf.max_queries is not None:
        due = min(due, plan.mlperf.max_queries)
    return offsets[: max(recorded, math.ceil(due * (1 - _MISSING_AT_END_RATIO)))]


def reschedule(plan: LoadPlan, spools: Sequence[Path]) -> NDArray[np.int64]:
    """When LoadGen was to issue its queries, ns of CLOCK_MONOTONIC, by their numbers.

    In the server scenario the records get these moments for their intended ones: until now they have those at which
    LoadGen issued them.
    """
    assert plan.mlperf is not None
    first_id = first_query_id(plan)
    parts = [Spool(path) for path in spools]
    numbers, issued = _queries(parts, first_id)
    if not len(issued):
        return issued
    if plan.mlperf.scenario == "offline":
        return np.full(plan.mlperf.requests, issued.min())
    if plan.mlperf.scenario != "server":
        return issued[np.argsort(numbers)]
    offsets = asked_offsets_ns(plan, int(numbers.max()) + 1)
    schedule = int((issued - offsets[numbers]).min()) + offsets
    for part in parts:
        rows = part.rows_in_place()
        mine = rows["request_id"] >= first_id
        rows["intended_ns"][mine] = schedule[rows["request_id"][mine] - first_id]
        rows.flush()
    return schedule


def _queries(parts: Sequence[Spool], first_id: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """LoadGen's queries counted from 0, and when it issued each."""
    numbers, issued = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for part in parts:
        for piece in part.pieces():
            mine = piece["request_id"] >= first_id
            numbers.append(piece["request_id"][mine] - first_id)
            issued.append(piece["intended_ns"][mine])
    return np.concatenate(numbers), np.concatenate(issued)


def promise(
    plan: LoadPlan, schedule_ns: NDArray[np.int64], start_ns: int, end_ns: int
) -> OpenPlan | ClosedPlan:
    """What the certificate holds a load by LoadGen to."""
    assert plan.mlperf is not None
    first_id = first_query_id(plan)
    if plan.mlperf.scenario in ("single_stream", "multi_stream"):
        first_ns = int(schedule_ns[0]) if len(schedule_ns) else None
        return ClosedPlan(
            1, start_ns=first_ns, shards=1, first_request_id=first_id, timeout_ns=plan.timeout_ns
        )
    inside = (schedule_ns >= start_ns) & (schedule_ns < end_ns)
    return OpenPlan(
        schedule_ns[inside],
        paced=plan.mlperf.scenario != "offline",
        request_id=first_id + np.flatnonzero(inside),
        shards=1,
        first_request_id=first_id,
        timeout_ns=plan.timeout_ns,
    )
