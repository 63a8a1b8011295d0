"""What can be wrong with a set of records: left out, doubled, moved, cut off, relabelled, stamped by another clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.load.faulty_senders import senders_at_fault
from benchmarks.load.record_sets import (
    MS,
    TIMES,
    RecordSet,
    S,
    closed_set,
    constant,
    lognormal,
    offline_set,
    open_set,
    poisson,
    trace,
)

Forgery = Callable[[RecordSet], RecordSet]


def forged() -> Iterator[RecordSet]:
    """Every forgery of the honest sets that it can be made of."""
    server = lognormal(8)
    opens = [
        open_set("poisson", poisson(200), server),
        open_set("constant, 4 senders", constant(200), server, shards=4),
        open_set("trace", trace(), server),
    ]
    loops = [
        closed_set("closed loop, 4 users", 4, server),
        closed_set("closed loop, 40 users, 20 senders", 40, lognormal(80), shards=20),
        closed_set("closed loop, thinking", 16, server, think_ms=40),
        closed_set("closed loop, quota", 6, server, shards=2, max_requests=2000),
    ]
    offline = offline_set("offline", 3000, server)
    for base in (*opens, *loops, offline):
        yield from (forgery(base) for forgery in EVERYWHERE)
    for base in (*opens, *loops):
        yield from (forgery(base) for forgery in PACED)
    for base in opens:
        yield from (forgery(base) for forgery in SCHEDULED)
    for base in loops:
        yield from (forgery(base) for forgery in CHAINED)
    for base in (opens[1], *loops[1::2]):
        yield from (forgery(base) for forgery in SHARDED)
    yield from senders_at_fault()


def _measured(base: RecordSet) -> NDArray[np.int64]:
    return np.flatnonzero(np.asarray(base.columns["phase"]) == "measure")


def _second_half(base: RecordSet, names: tuple[str, ...], later_ns: int) -> dict[str, NDArray[np.int64]]:
    """These times, by so much later from the window's middle on."""
    middle = sum(base.window_ns) // 2
    columns = {name: np.asarray(base.columns[name]) for name in names}
    return {name: np.where(times >= middle, times + later_ns, times) for name, times in columns.items()}


def _without(base: RecordSet, name: str, rows: NDArray[np.int64]) -> RecordSet:
    return base.of_rows(name, np.setdiff1d(np.arange(len(base.columns["request_id"])), rows))


def slow_removed(base: RecordSet) -> RecordSet:
    """The slowest percent is gone."""
    rows = _measured(base)
    took = (base.columns["done_ns"] - base.columns["sent_ns"])[rows]
    return _without(base, "slow ones removed", rows[np.argsort(took)[-max(1, len(rows) // 100) :]])


def one_dropped(base: RecordSet) -> RecordSet:
    """A single record is gone."""
    rows = _measured(base)
    return _without(base, "one dropped", rows[len(rows) // 2 : len(rows) // 2 + 1])


def one_doubled(base: RecordSet) -> RecordSet:
    """A record stands there twice."""
    rows = _measured(base)
    return base.of_rows("one doubled", np.sort(np.append(np.arange(len(base.columns["status"])), rows[7])))


def doubled_as_new(base: RecordSet) -> RecordSet:
    """Fast records stand there twice, the second time under numbers of their own."""
    rows = _measured(base)[:20]
    extra = base.of_rows("fast ones doubled", np.append(np.arange(len(base.columns["status"])), rows))
    ids = np.asarray(extra.columns["request_id"]).copy()
    ids[-20:] = ids.max() + 1 + np.arange(20) * (base.plan.shards or 1)
    return replace(extra, columns=extra.columns | {"request_id": ids})


def tail_missing(base: RecordSet) -> RecordSet:
    """What ended in the last 0.8 s, or was under way then, is gone."""
    start, end = base.window_ns
    cut = end - min(8 * S // 10, (end - start) // 4)
    return _without(base, "last part missing", np.flatnonzero(base.columns["done_ns"] >= cut))


def middle_missing(base: RecordSet) -> RecordSet:
    """Whatever was meant to leave, or ended, in a stretch of 0.3 s is gone."""
    start, end = base.window_ns
    at, length = start + (end - start) // 3, min(3 * S // 10, (end - start) // 5)
    ended = base.columns["done_ns"]
    return _without(base, "middle missing", np.flatnonzero((ended >= at) & (ended < at + length)))


def never_sent(base: RecordSet) -> RecordSet:
    """Every record says that it was never sent, and was answered all the same."""
    return base.changed("sent_ns = -1", sent_ns=np.full(len(base.columns["status"]), -1))


def some_never_sent(base: RecordSet) -> RecordSet:
    """One in a hundred says so."""
    sent = np.asarray(base.columns["sent_ns"]).copy()
    sent[::100] = -1
    return base.changed("some sent_ns = -1", sent_ns=sent)


def ended_before(base: RecordSet) -> RecordSet:
    """Some answers came before their requests."""
    done = np.asarray(base.columns["done_ns"]).copy()
    rows = _measured(base)[::97]
    done[rows] = np.asarray(base.columns["sent_ns"])[rows] - 1000
    return base.changed("completed before sent", done_ns=done)


def first_byte_after_end(base: RecordSet) -> RecordSet:
    """Some answers begin after they have ended."""
    first = np.asarray(base.columns["first_byte_ns"]).copy()
    rows = _measured(base)[::97]
    first[rows] = np.asarray(base.columns["done_ns"])[rows] + MS
    return base.changed("first byte after the end", first_byte_ns=first)


def no_number(base: RecordSet) -> RecordSet:
    """A NaN that became an integer."""
    done = np.asarray(base.columns["done_ns"]).copy()
    done[_measured(base)[5]] = np.iinfo(np.int64).min
    return base.changed("NaN as an end", done_ns=done)


def never_ended(base: RecordSet) -> RecordSet:
    """Good answers without an end."""
    done = np.asarray(base.columns["done_ns"]).copy()
    done[_measured(base)[::211]] = -1
    return base.changed("good answers without an end", done_ns=done)


def failures_as_drops(base: RecordSet) -> RecordSet:
    """Slow requests are called dropped, though they were sent and ended."""
    status = np.asarray(base.columns["status"]).copy()
    status[_measured(base)[::1999]] = "dropped"
    return base.changed("slow ones called dropped", status=status)


def early_timeouts(base: RecordSet) -> RecordSet:
    """Slow requests are called timeouts long before their time."""
    status = np.asarray(base.columns["status"]).copy()
    status[_measured(base)[::400]] = "timeout"
    return base.changed("slow ones called timeouts", status=status)


def late_answers(base: RecordSet) -> RecordSet:
    """Timeouts are called good answers: they took longer than any request may."""
    done = np.asarray(base.columns["done_ns"]).copy()
    done[_measured(base)[::300]] += 4 * S
    return base.changed("timeouts called ok", done_ns=done)


def other_window(base: RecordSet) -> RecordSet:
    """The warm-up's phase is moved over a tenth of the window."""
    phase = np.asarray(base.columns["phase"]).copy()
    rows = _measured(base)
    phase[rows[: len(rows) // 10]] = "warmup"
    return base.changed("measured ones called warm-up", phase=phase)


def other_numbers(base: RecordSet) -> RecordSet:
    """Two requests have changed their numbers."""
    ids = np.asarray(base.columns["request_id"]).copy()
    rows = _measured(base)
    ids[rows[3]] = ids.max() + 9 * (base.plan.shards or 1)
    return base.changed("a number from elsewhere", request_id=ids)


def clock_forward(base: RecordSet) -> RecordSet:
    """The clock of the senders jumps by 2 s: everything after it is stamped later."""
    return base.changed("clock steps forward", **_second_half(base, TIMES[1:], 2 * S))


def clock_back(base: RecordSet) -> RecordSet:
    """The clock of the senders is set back by 50 ms."""
    return base.changed("clock steps back", **_second_half(base, TIMES[1:], -50 * MS))


def shifted(base: RecordSet) -> RecordSet:
    """All times of one half are 5 ms later."""
    return base.changed("second half shifted", **_second_half(base, TIMES, 5 * MS))


def early_stamps(base: RecordSet) -> RecordSet:
    """Requests left a little before their time."""
    sent = np.asarray(base.columns["sent_ns"]).copy()
    rows = _measured(base)[::50]
    sent[rows] = np.asarray(base.columns["intended_ns"])[rows] - 300_000
    return base.changed("early stamps", sent_ns=sent)


def permuted(base: RecordSet) -> RecordSet:
    """Intended times have changed places."""
    intended = np.asarray(base.columns["intended_ns"]).copy()
    rows = _measured(base)
    intended[rows] = np.random.default_rng(1).permutation(intended[rows])
    return base.changed("intended times permuted", intended_ns=intended)


def reordered(base: RecordSet) -> RecordSet:
    """Numbers have changed places, moments have not."""
    ids = np.asarray(base.columns["request_id"]).copy()
    rows = _measured(base)
    ids[rows] = ids[rows[::-1]]
    return base.changed("numbers reordered", request_id=ids)


def re_anchored(base: RecordSet) -> RecordSet:
    """The schedule waits for the sender: every request is intended for the moment at which it left."""
    return base.changed("schedule re-anchored", intended_ns=np.asarray(base.columns["sent_ns"]))


def renumbered(base: RecordSet) -> RecordSet:
    """The slow ones are gone and the others count on, without a hole."""
    less = slow_removed(base)
    ids = np.asarray(less.columns["request_id"]).copy()
    shard = np.asarray(less.columns["shard"])
    for index in range(base.plan.shards or 1):
        mine = np.flatnonzero(shard == index)
        ids[mine] = base.plan.first_request_id + index + np.arange(len(mine)) * (base.plan.shards or 1)
    renamed = replace(less, columns=less.columns | {"request_id": ids})
    return replace(renamed, name=f"{base.name}: slow ones removed, renumbered")


def slow_shortened(base: RecordSet) -> RecordSet:
    """Slow answers are stamped as if they had taken half as long."""
    sent, done = np.asarray(base.columns["sent_ns"]), np.asarray(base.columns["done_ns"]).copy()
    rows = _measured(base)
    rows = rows[np.argsort((done - sent)[rows])[-20:]]
    done[rows] = sent[rows] + (done - sent)[rows] // 2
    first = np.minimum(np.asarray(base.columns["first_byte_ns"]), done)
    return base.changed("slow ones shortened", done_ns=done, first_byte_ns=first)


def users_gone(base: RecordSet) -> RecordSet:
    """From the middle on a user does not ask again."""
    rows = _measured(base)
    return _without(base, "a user leaves", rows[len(rows) // 2 :: 4])


def more_users(base: RecordSet) -> RecordSet:
    """Another user asks, who was not planned."""
    rows = _measured(base)[:3]
    extra = base.of_rows("a user too many", np.append(np.arange(len(base.columns["status"])), rows))
    ids, step = np.asarray(extra.columns["request_id"]).copy(), base.plan.shards or 1
    mine = np.asarray(extra.columns["shard"])[-3:]
    ids[-3:] = [
        ids[np.asarray(extra.columns["shard"]) == owner].max() + step * (k + 1)
        for k, owner in enumerate(mine)
    ]
    return replace(extra, columns=extra.columns | {"request_id": ids})


def shard_gone(base: RecordSet) -> RecordSet:
    """A sender's records are gone, its account is there."""
    return _without(base, "a sender's records gone", np.flatnonzero(base.columns["shard"] == 1))


def shard_silent(base: RecordSet) -> RecordSet:
    """A sender's records are there, it gave no account of itself."""
    changed = base.changed("a sender without an account")
    return replace(changed, usages=base.usages[:-1])


def shard_lost(base: RecordSet) -> RecordSet:
    """A sender is gone altogether, as if it had never been."""
    last = (base.plan.shards or 1) - 1
    less = _without(base, "a sender gone altogether", np.flatnonzero(base.columns["shard"] == last))
    return replace(less, usages=base.usages[:-1])


def shards_swapped(base: RecordSet) -> RecordSet:
    """Two senders' records have changed hands."""
    shard = np.asarray(base.columns["shard"])
    swapped = np.where(shard == 0, 1, np.where(shard == 1, 0, shard))
    return base.changed("senders swapped", shard=swapped)


def shard_twice(base: RecordSet) -> RecordSet:
    """One sender's records stand in for another's."""
    rows = np.flatnonzero(np.asarray(base.columns["shard"]) != 1)
    twin = np.flatnonzero(np.asarray(base.columns["shard"]) == 0)
    copy = base.of_rows("one sender for another", np.concatenate([rows, twin]))
    shard, ids = np.asarray(copy.columns["shard"]).copy(), np.asarray(copy.columns["request_id"]).copy()
    shard[-len(twin) :] = 1
    ids[-len(twin) :] += 1
    return replace(copy, columns=copy.columns | {"shard": shard, "request_id": ids})


EVERYWHERE: tuple[Forgery, ...] = (
    slow_removed, one_dropped, one_doubled, doubled_as_new, tail_missing, middle_missing, never_sent, some_never_sent,
    ended_before, first_byte_after_end, no_number, never_ended, failures_as_drops, other_window, other_numbers,
)  # fmt: skip
#: Where requests have a deadline from their moment on.
PACED: tuple[Forgery, ...] = (permuted, early_timeouts, late_answers, clock_forward, clock_back, early_stamps)
SCHEDULED: tuple[Forgery, ...] = (shifted, reordered, re_anchored, renumbered)
CHAINED: tuple[Forgery, ...] = (renumbered, slow_shortened, users_gone, more_users)
SHARDED: tuple[Forgery, ...] = (shard_gone, shard_silent, shard_lost, shards_swapped, shard_twice)
