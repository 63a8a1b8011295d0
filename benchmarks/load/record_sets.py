"""Honest record sets of every kind of load, as real senders leave them: servers, senders and machines of all sorts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.evidence import ClosedPlan, OpenPlan, ShardUsage

S, MS = 1_000_000_000, 1_000_000
START_NS, WARMUP_S, SECONDS = 1_000 * S, 1, 10
TIMEOUT_NS = 2 * S
WINDOW_NS = (START_NS + WARMUP_S * S, START_NS + (WARMUP_S + SECONDS) * S)
#: A request's moments, in their order.
TIMES = ("intended_ns", "sent_ns", "first_byte_ns", "done_ns")

Law = Callable[[np.random.Generator, int], NDArray[Any]]
Columns = dict[str, Any]


@dataclass(frozen=True)
class RecordSet:
    """The records of a load and what a certificate is made from; ``columns``: of ``records.SCHEMA``, names as texts."""

    name: str
    columns: Columns
    plan: OpenPlan | ClosedPlan
    usages: tuple[ShardUsage, ...]
    window_ns: tuple[int, int] = field(default=WINDOW_NS)

    def changed(self, name: str, **columns: Any) -> RecordSet:
        """The same with other columns; the phases follow the intended times."""
        return replace(self, name=f"{self.name}: {name}", columns=self.columns | columns)

    def of_rows(self, name: str, rows: NDArray[Any]) -> RecordSet:
        """The same with these rows only, in that order."""
        columns = {key: np.asarray(values)[rows] for key, values in self.columns.items()}
        return replace(self, name=f"{self.name}: {name}", columns=columns)


def exact(milliseconds: float) -> Law:
    """A server that always takes as long, but for 2% of jitter."""
    return lambda rng, n: milliseconds * rng.normal(1, 0.02, n).clip(0.5)


def lognormal(milliseconds: float, sigma: float = 0.3) -> Law:
    """A median of so much, and a tail."""
    return lambda rng, n: milliseconds * rng.lognormal(0, sigma, n)


def heavy(milliseconds: float) -> Law:
    """A Pareto tail: the worst of ten thousand takes fifty times as long."""
    return lambda rng, n: (milliseconds * (1 + 0.2 * rng.pareto(2.5, n))).clip(max=1500)


def bimodal(milliseconds: float) -> Law:
    """A cache that misses in 5% of the requests."""
    return lambda rng, n: np.where(rng.uniform(size=n) < 0.05, 8, 1) * milliseconds * rng.normal(1, 0.05, n)


def pausing(milliseconds: float, pause_ms: float = 200) -> Law:
    """A collector of garbage, or a stall of the disk: 1% take longer by so much."""
    return lambda rng, n: milliseconds + np.where(rng.uniform(size=n) < 0.01, pause_ms, 0)


def timer(rng: np.random.Generator, n: int, busy: float = 1.0) -> NDArray[np.int64]:
    """How late a timer is: median 0.07 ms, p99 about 1 ms; ``busy`` times as much on a busy machine."""
    late = np.minimum(rng.lognormal(np.log(0.07 * busy), 1.2, n), 15)
    late_ns: NDArray[np.int64] = np.rint(late * MS).astype(np.int64)
    return late_ns


def usage_of(shards: int, stalls_ms: tuple[tuple[float, float], ...] = ()) -> tuple[ShardUsage, ...]:
    """What the senders say of themselves; ``stalls_ms``: (ms after the window's start, how long), of each."""
    stalls = tuple(
        (WINDOW_NS[0] + round(at * MS), WINDOW_NS[0] + round((at + length) * MS)) for at, length in stalls_ms
    )
    lengths = [end - begin for begin, end in stalls]
    return tuple(
        ShardUsage(
            shard=index, cpu_s=1.0, wall_s=float(SECONDS), max_stall_ns=max(lengths, default=500_000),
            stalls_ns=stalls, stalled_ns=sum(length for length in lengths if length >= 5 * MS),
        )
        for index in range(shards)
    )  # fmt: skip


def open_set(
    name: str,
    offsets_s: NDArray[Any],
    law: Law,
    *,
    shards: int = 1,
    seed: int = 1,
    busy: float = 1.0,
    failing: dict[str, float] | None = None,
    slots: int | None = None,
) -> RecordSet:
    """Requests at their moments; ``slots``: the server works on so many at once and lets the others wait."""
    rng = np.random.default_rng(seed)
    warm = np.arange(0, WARMUP_S * S, 20 * MS)
    measured = WARMUP_S * S + np.sort(offsets_s * S).astype(np.int64)
    intended = START_NS + np.concatenate([warm, measured])
    ids = np.concatenate([np.arange(len(warm)), len(warm) + np.arange(len(measured))])
    shard = np.concatenate([np.arange(len(warm)) % shards, np.arange(len(measured)) % shards])
    sent = intended + timer(rng, len(intended), busy)
    service = np.rint(law(rng, len(intended)) * MS).astype(np.int64)
    done = sent + service if slots is None else _queued(sent, service, slots)
    columns = _columns(rng, ids, shard, intended, sent, done, failing or {})
    inside = intended >= WINDOW_NS[0]
    plan = OpenPlan(
        intended[inside],
        request_id=ids[inside],
        shards=shards,
        first_request_id=len(warm),
        timeout_ns=TIMEOUT_NS,
    )
    return RecordSet(name, columns, plan, usage_of(shards))


def closed_set(
    name: str,
    users: int,
    law: Law,
    *,
    shards: int = 1,
    think_ms: float = 0.0,
    seed: int = 1,
    failing: dict[str, float] | None = None,
    max_requests: int | None = None,
) -> RecordSet:
    """Users who ask again as soon as they are answered and have thought; one segment, warm-up included."""
    rng = np.random.default_rng(seed)
    think_ns, end_ns = round(think_ms * MS), WINDOW_NS[1]
    rows: list[tuple[int, int, int, int, int]] = []
    quota_ends = []
    for index in range(shards):
        mine = users // shards + (index < users % shards)
        quota = None if max_requests is None else max_requests // shards + (index < max_requests % shards)
        service, late = iter(_endless(law, rng)), iter(_endless(lambda r, n: timer(r, n) / MS / 3, rng))
        free = [START_NS] * mine
        heapq.heapify(free)
        number = index
        while free:
            intended = heapq.heappop(free)
            if intended >= end_ns:
                continue
            if quota is not None and intended >= WINDOW_NS[0]:
                quota -= 1
            sent = intended + int(next(late) * MS)
            done = sent + max(1, int(next(service) * MS))
            rows.append((number, index, intended, sent, done))
            heapq.heappush(free, done + think_ns)
            number += shards
            if quota is not None and quota <= 0:
                quota_ends.append(intended)
                break
    ids, shard, asked_ns, sent_ns, done_ns = np.array(rows, np.int64).T
    columns = _columns(rng, ids, shard, asked_ns, sent_ns, done_ns, failing or {})
    window = (WINDOW_NS[0], min([*quota_ends, end_ns - 1]) + 1)
    if max_requests is not None:
        columns["phase"] = _phases(columns["intended_ns"], window)
    plan = ClosedPlan(
        users, think_ns, start_ns=START_NS, end_ns=end_ns, max_requests=max_requests, shards=shards,
        timeout_ns=TIMEOUT_NS,
    )  # fmt: skip
    return RecordSet(name, columns, plan, usage_of(shards), window)


def offline_set(name: str, requests: int, law: Law, *, slots: int = 64, seed: int = 1) -> RecordSet:
    """All requests at once; so many are under way, and the window ends with the last answer."""
    rng = np.random.default_rng(seed)
    intended = np.full(requests, WINDOW_NS[0])
    service = np.rint(law(rng, requests) * MS).astype(np.int64)
    free = [WINDOW_NS[0]] * slots
    sent, done = np.empty(requests, np.int64), np.empty(requests, np.int64)
    for row in range(requests):
        sent[row] = heapq.heappop(free) + 20_000
        done[row] = sent[row] + service[row]
        heapq.heappush(free, int(done[row]))
    ids = np.arange(requests)
    columns = _columns(rng, ids, np.zeros(requests, np.int64), intended, sent, done, {})
    plan = OpenPlan(intended, paced=False, request_id=ids, shards=1, timeout_ns=TIMEOUT_NS)
    return RecordSet(name, columns, plan, usage_of(1), (WINDOW_NS[0], int(done.max())))


def poisson(rate_rps: float, seed: int = 1) -> NDArray[Any]:
    """Offsets of a Poisson process over the window, s."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0, SECONDS, rng.poisson(rate_rps * SECONDS))


def constant(rate_rps: float) -> NDArray[Any]:
    """Offsets at equal gaps, s."""
    return np.arange(0, SECONDS, 1 / rate_rps)


def bursts(every_s: float, size: int) -> NDArray[Any]:
    """So many at one instant, again and again."""
    return np.repeat(np.arange(0, SECONDS, every_s), size)


def gamma(rate_rps: float, variation: float, seed: int = 1) -> NDArray[Any]:
    """Gaps with that coefficient of variation."""
    rng = np.random.default_rng(seed)
    shape = 1 / variation**2
    times = np.cumsum(rng.gamma(shape, 1 / (rate_rps * shape), round(2 * rate_rps * SECONDS) + 100))
    return times[times < SECONDS]


def trace(seed: int = 1) -> NDArray[Any]:
    """A recorded day in small: quiet, a peak, quiet, and a pause without any request."""
    rng = np.random.default_rng(seed)
    parts = [rng.uniform(0, 3, 150), rng.uniform(3, 5, 900), rng.uniform(5, 7, 100), rng.uniform(8.5, 10, 80)]
    return np.concatenate(parts)


def _queued(sent: NDArray[np.int64], service: NDArray[np.int64], slots: int) -> NDArray[np.int64]:
    free = [0] * slots
    done = np.empty_like(sent)
    for row in np.argsort(sent, kind="stable"):
        begin = max(int(sent[row]), heapq.heappop(free))
        done[row] = begin + service[row]
        heapq.heappush(free, int(done[row]))
    return done


def _endless(law: Law, rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from law(rng, 4096)


def _phases(intended: NDArray[Any], window: tuple[int, int]) -> NDArray[Any]:
    after = np.where(intended >= window[1], "cooldown", "measure")
    return np.where(intended < window[0], "warmup", after)


def _columns(
    rng: np.random.Generator,
    ids: NDArray[Any],
    shard: NDArray[Any],
    intended: NDArray[Any],
    sent: NDArray[Any],
    done: NDArray[Any],
    failing: dict[str, float],
) -> Columns:
    """``failing``: statuses of these shares of the requests; a timeout takes as long as it does."""
    status = np.full(len(ids), "ok", dtype=object)
    sent, done = sent.copy(), done.copy()
    for name, ratio in failing.items():
        status[rng.uniform(size=len(ids)) < ratio] = name
    timeout = status == "timeout"
    done[timeout] = sent[timeout] + TIMEOUT_NS + rng.integers(0, 5 * MS, int(timeout.sum()))
    first = np.where(status == "ok", done - np.minimum(10_000, done - sent), -1)
    order = np.argsort(intended, kind="stable")
    columns = {
        "request_id": ids, "shard": shard, "intended_ns": intended, "sent_ns": sent, "first_byte_ns": first,
        "done_ns": done, "status": status, "phase": _phases(intended, WINDOW_NS),
    }  # fmt: skip
    return {name: np.asarray(values)[order] for name, values in columns.items()}
