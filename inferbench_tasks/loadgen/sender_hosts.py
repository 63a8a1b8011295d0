"""Several hosts that send parts of one load: one schedule, one clock, and what the certificate asks of each host.

Each host has every n-th of the load's shards (``LoadPlan.own``), draws the same schedule, and sends every n-th request
of it. Each keeps records on its own CLOCK_MONOTONIC. They are put on the leading host's by the very number by which its
start was put on theirs, so that intended times are those of the schedule to the nanosecond; what that number is wrong
by at most is how far apart the hosts' parts really were.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from inferbench_tasks.errors import LoadError
from inferbench_tasks.loadgen.connection_waits import with_waits
from inferbench_tasks.loadgen.evidence import Check, ClosedPlan, OpenPlan, ShardUsage, beside
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.spool import Spool
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.window import Window, taken

#: The moments of a record; -1 where one did not happen.
_MOMENTS = ("intended_ns", "sent_ns", "first_byte_ns", "done_ns")
#: What is another on each host though the load is one.
_OWN = {
    "folder",
    "endpoint",
    "inputs_path",
    "processing",
    "first_shard",
    "own_shards",
    "segments",
    "vocabulary",
    "max_error_ratio",
    "max_backlog",
}


@dataclass(frozen=True)
class SenderHost:
    """``misplaced_ms``: by how much its moments may lie elsewhere on the leading host's clock than they are said to."""

    name: str
    shards: range
    misplaced_ms: float = 0.0


def part_of(plan: LoadPlan, number: int, hosts: int) -> LoadPlan:
    """The plan as host ``number`` (from 0) of so many sends it; LoadError where a sender would be nobody's.

    What ends a load early is judged over all of it, which the first host alone sees.
    """
    each, left = divmod(plan.shards, hosts)
    if left:
        raise LoadError(f"{plan.shards} senders can't be shared by {hosts} hosts")
    judged: dict[str, Any] = {} if number == 0 else {"max_error_ratio": 1.0, "max_backlog": None}
    return plan.model_copy(update={"first_shard": number, "own_shards": each, **judged})


def schedule_digest(plan: LoadPlan) -> str:
    """SHA-256 of all that the hosts of one load have to agree on before they send: the schedule, and how it is cut."""
    shared = plan.model_dump(mode="json", exclude=_OWN)
    segments = [
        {
            **segment.model_dump(mode="json", exclude={"offsets_path"}),
            "offsets": segment.offsets_path
            and hashlib.sha256(np.load(segment.offsets_path).astype("<i8").tobytes()).hexdigest(),
        }
        for segment in plan.segments
    ]
    text = json.dumps({**shared, "segments": segments}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def put_back(path: Path, ahead_ns: int) -> None:
    """The moments of a spool, in place, on a clock that its host's is so far ahead of."""
    spool = Spool(path)
    if not spool.rows:
        return
    rows = spool.rows_in_place()
    for name in _MOMENTS:
        happened = rows[name] >= 0
        rows[name][happened] -= ahead_ns
    rows.flush()


def usage_of(usage: ShardUsage, host: str, ahead_ns: int) -> ShardUsage:
    """What a sender of that host used, its stalls on a clock that its host's is so far ahead of."""
    stalls = usage.stalls_ns
    moved = None if stalls is None else tuple((begin - ahead_ns, end - ahead_ns) for begin, end in stalls)
    return usage.model_copy(update={"host": host, "stalls_ns": moved})


def too_far(hosts: Sequence[SenderHost], limits: Thresholds) -> str:
    """What can be said before a load of ``hosts_apart``, by how well their clocks are known then; "" where it holds
    whatever the latency.

    A clock is known to half a round trip, so that hosts far from each other can load slow servers alone.
    """
    worst, other = sorted(hosts, key=lambda host: -host.misplaced_ms)[:2]
    apart_ms = worst.misplaced_ms + other.misplaced_ms
    if apart_ms <= limits.gap_slack_ms:
        return ""
    names = f"{worst.name} and {other.name}" if other.misplaced_ms else worst.name
    return (
        f"the way to {names} takes so long that clocks are known to {apart_ms:.1f} ms only; at most "
        f"{limits.gap_slack_ms:g} ms or a tenth of the median latency are allowed (hosts_apart): below a median of "
        f"{apart_ms / limits.gap_slack_latency_ratio:.0f} ms this load will be invalid. Choose client hosts that are "
        "near to each other, or one alone"
    )


def host_checks(
    table: pa.Table,
    promise: OpenPlan | ClosedPlan,
    usages: Sequence[ShardUsage],
    hosts: Sequence[SenderHost],
    window_ns: tuple[int, int],
    limits: Thresholds,
) -> tuple[list[Check], list[dict[str, Any]]]:
    """What is held against a load for one of its hosts, and what is known of each.

    The checks of the whole load stand beside them: a host that is late with its part alone is late here.
    """
    asked = promise.connections if isinstance(promise, OpenPlan) else None
    window = with_waits(Window.of(table, *window_ns), asked, usages)
    good = window.answered & (window.sent_ns >= 0)
    latency_ms = (taken(window.done_ns, good) - taken(window.sent_ns, good)) / 1e6
    p50_ms = float(np.median(latency_ms)) if len(latency_ms) else 0.0
    figures = [_figures(window.sent_by(host.shards), usages, host) for host in hosts]
    checks = [_apart(hosts, p50_ms, limits)]
    if isinstance(promise, OpenPlan) and promise.paced:
        for name, words, limit in (
            ("lateness_p50_ms", "half of the requests", limits.most_late_p50_ms(p50_ms)),
            ("lateness_p99_ms", "1% of the requests", limits.most_late_p99_ms(p50_ms)),
        ):
            late = [(one[name], one["host"]) for one in figures if one[name] is not None]
            if late:
                checks.append(_late(f"host_{name.removesuffix('_ms')}", words, *max(late), limit))
    return checks, figures


def failing(hosts: Sequence[dict[str, Any]], limit_ratio: float) -> list[str]:
    """Of which hosts so many requests failed as would end a load, had all failed so; ``hosts``: of ``host_checks``.

    None where it was so on all: that is no host's own.
    """
    many = [one for one in hosts if one["errors"] > limit_ratio * one["requests"]]
    if len(many) == len(hosts):
        return []
    return [
        f"{one['errors']} of {one['requests']} requests of {one['host']} failed, more than load.max_error_ratio "
        f"({limit_ratio:g}), which is judged over all hosts: it may be that host or its link, and not the server"
        for one in many
    ]


def _figures(window: Window, usages: Sequence[ShardUsage], host: SenderHost) -> dict[str, Any]:
    """``window``: of its own records."""
    mine = [usage for usage in usages if usage.shard in host.shards]
    was_sent = window.measured & (window.sent_ns >= 0)
    late_ms = (window.joined_ns - window.intended_ns)[was_sent] / 1e6
    p50, p99 = np.quantile(late_ms, [0.5, 0.99], method="inverted_cdf") if len(late_ms) else (None, None)
    return {
        "host": host.name,
        "shards": [*host.shards],
        "requests": int(window.measured.sum()),
        "errors": int((window.measured & ~window.ok).sum()),
        "lateness_p50_ms": None if p50 is None else float(p50),
        "lateness_p99_ms": None if p99 is None else float(p99),
        "max_stall_ms": max((usage.max_stall_ns / 1e6 for usage in mine), default=None),
        "cpu_ratio": max((u.cpu_s / u.wall_s for u in mine if u.wall_s > 0), default=None),
        "misplaced_ms": host.misplaced_ms,
    }


def _apart(hosts: Sequence[SenderHost], p50_ms: float, limits: Thresholds) -> Check:
    """What gaps between requests of one host may differ by, those between requests of two may.

    The first host's moments are its own; two others may be wrong by what either is, one forwards and one backwards.
    """
    worst, other = sorted(hosts, key=lambda host: -host.misplaced_ms)[:2]
    apart_ms = worst.misplaced_ms + other.misplaced_ms
    limit = max(limits.gap_slack_ms, limits.gap_slack_latency_ratio * p50_ms)
    value, most = beside(apart_ms, limit, 2)
    words = (
        f"{worst.name} and {other.name} sent their parts of the load up to {value} ms (at most {most} ms) nearer to "
        f"each other, or farther apart, than by the moments that {hosts[0].name} kept"
        if other.misplaced_ms
        else f"{worst.name} sent its part of the load up to {value} ms (at most {most} ms) before or after the moments "
        f"that {hosts[0].name} kept"
    )
    return Check.at_most(
        "hosts_apart", apart_ms, limit, "ms", f"{words}: how their clocks lay is not known better"
    )


def _late(name: str, words: str, late_ms: float, host: str, limit_ms: float) -> Check:
    value, most = beside(late_ms, limit_ms, 2)
    return Check.at_most(
        name, late_ms, limit_ms, "ms",
        f"{words} of {host} left more than {value} ms late (at most {most} ms)",
    )  # fmt: skip
