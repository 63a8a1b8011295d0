"""Whether the records are those of the whole load: every sender, every request, each with times that can be.

What is left out or moved changes the figures as much as a load that was not applied. An open load is compared with
its schedule, request by request. A closed one has no schedule, but its requests hang together: each but the users'
first is meant for the very nanosecond at which an earlier one ended, plus the think time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from inferbench_tasks.clients.base import CANCELLED, CONNECTION, TIMEOUT
from inferbench_tasks.loadgen.evidence import Check, ClosedPlan, OpenPlan, ShardUsage
from inferbench_tasks.loadgen.layout import DROPPED
from inferbench_tasks.loadgen.window import Window, taken

#: A request is ended by a look at all of them every few ms, or when the loop gets to it.
_TIMEOUT_SLACK_NS = 1_000_000_000
#: A quota's last request may overtake those that are due in the same moment.
_QUOTA_SLACK_NS = 1_000_000
_PIECE = 1 << 18


def completeness_checks(
    table: pa.Table, window: Window, plan: OpenPlan | ClosedPlan, shards: Sequence[ShardUsage]
) -> list[Check]:
    """What can be checked of the plan; a plan that doesn't say how many senders there were has fewer checks."""
    whole = window
    checks = [_possible(table, window, plan)]
    if plan.shards is None:
        return checks
    checks.append(_senders(window, plan, shards))
    if plan.turn_step:  # a turn has its session's number and owner
        window = replace(window, request_id=window.request_id % plan.turn_step)
    numbered = window.request_id >= plan.first_request_id
    checks.append(_owners(window, plan.shards, plan.first_request_id, numbered))
    if plan.shards > 1:
        checks.append(_twins(window))
    if isinstance(plan, ClosedPlan):
        checks.append(_numbers(window, plan, numbered))
        if plan.start_ns is not None:
            checks.append(_chain(window, plan, numbered))
    elif plan.request_id is not None:
        checks.append(_schedule(whole, plan))
    return checks


def _possible(table: pa.Table, window: Window, plan: OpenPlan | ClosedPlan) -> Check:
    """Each status has times that go with it, and no others."""
    sent, first, done = window.sent_ns, window.first_byte_ns, window.done_ns
    was_sent, ended = sent >= 0, done >= 0
    dropped, cancelled, timeout = (_has(window, name) for name in (DROPPED, CANCELLED, TIMEOUT))
    never_sent = dropped | _has(window, CONNECTION)
    wrong = (window.intended_ns < 0) | (window.batch_size < 1)
    wrong |= (sent < -1) | (first < -1) | (done < -1)
    wrong |= (window.ok & ~(was_sent & ended)) | (~was_sent & ~never_sent & ~cancelled)
    wrong |= (dropped & (was_sent | ended)) | (cancelled & ended)
    wrong |= ended & was_sent & (done < sent)
    wrong |= (first >= 0) & ((first < sent) | (ended & (first > done)))
    wrong |= ended & (done < window.intended_ns)
    if isinstance(plan, ClosedPlan):
        wrong |= was_sent & (sent < window.intended_ns)
    if plan.timeout_ns is not None and (isinstance(plan, ClosedPlan) or plan.paced):
        wrong |= timeout & was_sent & (done - sent < plan.timeout_ns)
        wrong |= window.ok & (done - sent > plan.timeout_ns + _TIMEOUT_SLACK_NS)
    count = int(np.count_nonzero(wrong)) + sum(column.null_count for column in table.columns)
    return Check.at_most(
        "impossible_records", count, 0, "records",
        f"{count} of {len(sent)} records can't be: a good answer to what was never sent, an end before its "
        "beginning, a timeout before its time, or no value at all",
    )  # fmt: skip


def _has(window: Window, status: str) -> NDArray[np.bool_]:
    codes = [code for code, name in enumerate(window.status_names) if name == status]
    return window.status == codes[0] if codes else np.zeros(len(window.status), np.bool_)


def _senders(window: Window, plan: OpenPlan | ClosedPlan, shards: Sequence[ShardUsage]) -> Check:
    """Each sender gave account of itself, and each that had something to send has records."""
    assert plan.shards is not None
    silent = set(range(plan.shards)) - {usage.shard for usage in shards}
    recorded = set(np.unique(window.shard).tolist())
    idle = {index for index in range(plan.shards) if not _expected(plan, index)}
    missing = len(silent | (set(range(plan.shards)) - recorded - idle)) + len(
        recorded - set(range(plan.shards))
    )
    return Check.at_most(
        "senders", missing, 0, "senders",
        f"{plan.shards} senders were planned; {missing} are missing in the records or gave no account, or there "
        "are records of others",
    )  # fmt: skip


def _expected(plan: OpenPlan | ClosedPlan, shard: int) -> bool:
    """Whether that sender had anything to send in the window."""
    assert plan.shards is not None
    if isinstance(plan, ClosedPlan):
        within = plan.max_requests is None or _share(plan.max_requests, plan.shards, shard) > 0
        return within and _share(plan.concurrency, plan.shards, shard) > 0
    if plan.request_id is None or len(plan.request_id) >= 2 * plan.shards:
        return True
    return bool(np.any((plan.request_id - plan.first_request_id) % plan.shards == shard))


def _share(total: int, shards: int, shard: int) -> int:
    """As ``LoadPlan.share``."""
    return total // shards + (shard < total % shards)


def _owners(window: Window, shards: int, first_id: int, numbered: NDArray[np.bool_]) -> Check:
    """A sender numbers its requests in steps of the number of senders: a number says whose it is."""
    wrong = 0
    for at in range(0, len(numbered), _PIECE):  # piece by piece: millions of records take no memory for it
        mine = numbered[at : at + _PIECE]
        owner = (window.request_id[at : at + _PIECE][mine] - first_id) % shards
        wrong += int(np.count_nonzero(owner != window.shard[at : at + _PIECE][mine]))
    return Check.at_most(
        "owners", wrong, 0, "records",
        f"{wrong} of {int(numbered.sum())} records carry a number that another sender gave",
    )  # fmt: skip


def _twins(window: Window) -> Check:
    """No two senders sent and were answered in the same nanoseconds; copied records did."""
    ended = (window.sent_ns >= 0) & (window.done_ns >= 0)
    sent, done, shard = window.sent_ns[ended], window.done_ns[ended], window.shard[ended]
    order = np.lexsort((done, sent))
    sent, done, shard = sent[order], done[order], shard[order]
    same = (sent[1:] == sent[:-1]) & (done[1:] == done[:-1]) & (shard[1:] != shard[:-1])
    twins = int(np.count_nonzero(same))
    return Check.at_most(
        "twin_records", twins, 0, "records",
        f"{twins} records of a sender have the very times of another sender's: they are copies",
    )  # fmt: skip


def _numbers(window: Window, plan: ClosedPlan, numbered: NDArray[np.bool_]) -> Check:
    """Every sender counts from its first number on without a hole."""
    assert plan.shards is not None
    holes = 0
    for index in range(plan.shards):
        ids = np.unique(window.request_id[numbered & (window.shard == index)])
        if len(ids):
            holes += max(0, int((ids[-1] - plan.first_request_id - index) // plan.shards) + 1 - len(ids))
    return Check.at_most(
        "request_numbers", holes, 0, "requests",
        f"{holes} numbers between the first and the last request have no record: requests were left out",
    )  # fmt: skip


def _chain(window: Window, plan: ClosedPlan, numbered: NDArray[np.bool_]) -> Check:
    """Every request follows an answer, and every answer within the load is followed by a request."""
    assert plan.shards is not None and plan.start_ns is not None
    until_ns = min(window.end_ns, plan.end_ns or window.end_ns)
    if plan.max_requests is not None:
        until_ns -= _QUOTA_SLACK_NS
    broken = sum(_broken(*link, until_ns) for link in _links(window, plan, plan.start_ns, numbered))
    return Check.at_most(
        "chain", broken, 0, "requests",
        f"{broken} times a user asked without having been answered, or was answered and did not ask again before "
        "the end: records are missing, or their times were moved",
    )  # fmt: skip


def _links(
    window: Window, plan: ClosedPlan, start_ns: int, numbered: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], int]]:
    """Per sender: the times asked for, the times at which a user was free to ask, and how many times are not known.

    A user whose request was given up asks again when that is noticed, which nobody writes down.
    """
    assert plan.shards is not None
    for index in range(plan.shards):
        mine = numbered & (window.shard == index)
        if not mine.any():
            continue
        done = window.done_ns[mine]
        users = _share(plan.concurrency, plan.shards, index)
        pause = plan.think_time_ns if plan.pause_ns is None else plan.pause_ns[mine][done >= 0]
        free = np.concatenate([np.full(users, start_ns), done[done >= 0] + pause])
        yield window.intended_ns[mine], free, int(np.count_nonzero(done < 0))


def _broken(intended: NDArray[np.int64], free: NDArray[np.int64], unknown: int, until_ns: int) -> int:
    """How many of either have no counterpart; of ``free`` only those before ``until_ns`` need one."""
    times, place = np.unique(np.concatenate([intended, free]), return_inverse=True)
    balance = np.bincount(place[: len(intended)], minlength=len(times)) - np.bincount(
        place[len(intended) :], minlength=len(times)
    )
    orphans = int(balance.clip(0).sum())
    idle = int((-balance).clip(0)[times < until_ns].sum())
    return max(0, orphans - unknown) + idle


def _schedule(window: Window, plan: OpenPlan) -> Check:
    """Every planned request has its record, with the moment and the number that were planned for it."""
    assert plan.request_id is not None
    ids, times = taken(window.request_id, window.measured), taken(window.intended_ns, window.measured)
    if np.array_equal(ids, plan.request_id) and np.array_equal(times, plan.intended_ns):
        return _scheduled(0, len(ids))  # as nearly always: millions of records take no memory for it
    measured = np.flatnonzero(window.measured)
    order = measured[np.argsort(window.request_id[measured], kind="stable")]
    planned = np.argsort(plan.request_id, kind="stable")
    ids, times = window.request_id[order], window.intended_ns[order]
    at = np.searchsorted(ids, plan.request_id[planned])
    there = at < len(ids)
    at = np.where(there, at, 0)
    same = there & (len(ids) > 0)
    if len(ids):
        same &= (ids[at] == plan.request_id[planned]) & (times[at] == plan.intended_ns[planned])
    return _scheduled(int(np.count_nonzero(~same)) + max(0, len(ids) - len(planned)), len(planned))


def _scheduled(wrong: int, planned: int) -> Check:
    return Check.at_most(
        "schedule", wrong, 0, "requests",
        f"{wrong} of {planned} planned requests have no record with their number and their moment",
    )  # fmt: skip
