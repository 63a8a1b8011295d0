"""The stimulus certificate: did the server get the traffic that was promised, and did the client see it right?

A load generator that was stopped, throttled or too slow still prints figures. Each run is therefore
judged by its own records against its plan; where a check fails the run is invalid, with both numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from inferbench_tasks.contracts.verdict import Reason
from inferbench_tasks.errors import InputError
from inferbench_tasks.loadgen.client_share import ClientShare, client_shares, withheld
from inferbench_tasks.loadgen.closed_loop_checks import closed_loop_checks
from inferbench_tasks.loadgen.completeness import completeness_checks
from inferbench_tasks.loadgen.connection_waits import waits_ms, waits_warning, with_waits
from inferbench_tasks.loadgen.evidence import Check, ClosedPlan, OpenPlan, ShardUsage
from inferbench_tasks.loadgen.open_loop_checks import open_loop_checks
from inferbench_tasks.loadgen.pacing import ascending
from inferbench_tasks.loadgen.stability import growing_backlog, withheld_for
from inferbench_tasks.loadgen.statistics import NAMES
from inferbench_tasks.loadgen.thresholds import Thresholds
from inferbench_tasks.loadgen.window import Window, taken

__all__ = ["Certificate", "Check", "ClosedPlan", "OpenPlan", "ShardUsage", "Thresholds", "certify"]


class Certificate(BaseModel):
    """``valid`` only if every check holds; ``reasons`` says which do not, each with its check, figure and bound.

    ``warnings`` tell what a reader of the figures should know though it doesn't invalidate them.
    ``withheld``: series of the summary -> figure -> why it is None though it was measured: the client made it.
    ``figures`` holds what was measured on the way, units in the names; None where nothing was.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    valid: bool
    reasons: list[Reason]
    warnings: list[str]
    withheld: dict[str, dict[str, str]] = {}
    checks: list[Check]
    figures: dict[str, Any]
    thresholds: Thresholds

    def without_latencies(self, reason: str) -> Certificate:
        """The same with every latency withheld for that reason, but for those that have one already."""
        reasons = withheld_for(reason)
        merged = {series: {**names, **self.withheld.get(series, {})} for series, names in reasons.items()}
        return self.model_copy(update={"withheld": merged})

    def and_check(self, check: Check) -> Certificate:
        """The same with one more check."""
        checks = [*self.checks, check]
        reasons = [check.against() for check in checks if not check.ok]
        return self.model_copy(update={"valid": not reasons, "reasons": reasons, "checks": checks})


def certify(
    table: pa.Table,
    plan: OpenPlan | ClosedPlan,
    shards: Sequence[ShardUsage],
    *,
    measure_start_ns: int,
    measure_end_ns: int,
    thresholds: Thresholds | None = None,
) -> Certificate:
    """Judge a load by its records.

    ``plan``: what was promised for the measured window. ``shards``: what each sender used and how long
    its loop was held up at worst. InputError for an empty window, or without a word from the senders.
    """
    if not shards:
        raise InputError("A certificate needs the usage of every sender (shards); none was given")
    limits = thresholds or Thresholds()
    window = Window.of(table, measure_start_ns, measure_end_ns)
    asked = plan.connections if isinstance(plan, OpenPlan) else None
    window = with_waits(window, asked, shards)
    # Whether a request that is sent late, or whose answer is seen late, holds up the ones behind it.
    waits = waits_ms(window)
    waited_for = isinstance(plan, ClosedPlan) or window.queued
    p50_ms = _send_latency_p50_ms(window)
    paced = not isinstance(plan, OpenPlan) or plan.paced
    shares = client_shares(window, shards, limits, paced=paced)
    checks = [
        *_record_checks(window),
        *completeness_checks(table, window, plan, shards),
        *_client_checks(shards, limits),
        *([_stalled_check(shards, limits, waited_for=waited_for)] if paced else []),
        *_median_check(shares),
        *_failure_checks(window, limits),
    ]
    figures: dict[str, Any] = {
        "requests": int(window.measured.sum()),
        "errors": window.error_counts(),
        "client_cpu_ratio": max(usage.cpu_s / usage.wall_s if usage.wall_s > 0 else 1.0 for usage in shards),
        "max_stall_ms": max(usage.max_stall_ns for usage in shards) / 1e6,
        "stalled_ratio": max(_stalled_ratio(usage) for usage in shards),
        "client_made_ms": {
            share.name: share.share_ms for share in shares if share.series == "e2e_latency_ms"
        },
        "send_latency_p50_ms": p50_ms,
        "in_flight_mean": window.in_flight_mean(),
    }
    backlog = growing_backlog(window)
    figures["growing_backlog"] = backlog
    if isinstance(plan, OpenPlan):
        more, measured = open_loop_checks(window, plan, p50_ms or 0.0, limits)
    else:
        more, measured = closed_loop_checks(window, plan, limits)
    checks += more
    figures |= measured
    figures |= waits
    warnings = _warnings(backlog, answered=p50_ms is not None)
    if asked is not None and waits:
        warnings.append(waits_warning(waits, sum(asked)))
    return Certificate(
        valid=all(check.ok for check in checks),
        reasons=[check.against() for check in checks if not check.ok],
        warnings=warnings,
        withheld=withheld(shares),
        checks=checks,
        figures=figures,
        thresholds=limits,
    )


def _record_checks(window: Window) -> list[Check]:
    """The records themselves: there are some, each once, and their labels fit the window."""
    requests = int(window.measured.sum())
    ids = ascending(window.request_id)  # np.unique would build a hash table of 30 bytes for each
    backwards = int(np.count_nonzero(window.ok & (window.done_ns < window.sent_ns)))
    repeated = int(np.count_nonzero(ids[1:] == ids[:-1]))
    return [
        Check.at_most(
            "empty", float(requests == 0), 0, "", f"{requests} requests were measured, at least 1 is needed"
        ),
        Check.at_most(
            "repeated_records", repeated, 0, "records",
            f"{repeated} of {len(window.request_id)} records carry a request id that another record has",
        ),
        Check.at_most(
            "mislabelled_records", window.mislabelled, 0, "records",
            f"{window.mislabelled} of {len(window.request_id)} records lie on the other side of the measured "
            "window than their phase says",
        ),
        Check.at_most(
            "backward_records", backwards, 0, "records",
            f"{backwards} of {len(window.request_id)} records have an answer before their request: a clock jumped",
        ),
    ]  # fmt: skip


def _client_checks(shards: Sequence[ShardUsage], limits: Thresholds) -> list[Check]:
    worst = max(shards, key=lambda usage: usage.max_stall_ns)
    busiest = max(shards, key=lambda usage: usage.cpu_s / max(usage.wall_s, 1e-9))
    cpu = busiest.cpu_s / busiest.wall_s if busiest.wall_s > 0 else 1.0
    stall_ms = worst.max_stall_ns / 1e6
    return [
        Check.at_most(
            "client_stall", stall_ms, limits.stall_ms, "ms",
            f"the sender of shard {worst.shard} was held up{worst.where} for {stall_ms:.1f} ms (at most "
            f"{limits.stall_ms:g} ms): it was stopped, or the machine was too busy",
        ),
        Check.at_most(
            "client_cpu", cpu, limits.client_cpu_ratio, "cores",
            f"the sender of shard {busiest.shard} used {cpu:.0%} of a core{busiest.where} (at most "
            f"{limits.client_cpu_ratio:.0%}): the client was the bottleneck; use more shards or a lower load",
        ),
    ]  # fmt: skip


def _stalled_ratio(usage: ShardUsage) -> float:
    """The share of the window in which the loop was held up; by its worst stall alone where the sum is not known."""
    stalled_ns = usage.max_stall_ns if usage.stalled_ns is None else usage.stalled_ns
    return stalled_ns / 1e9 / usage.wall_s if usage.wall_s > 0 else 0.0


def _stalled_check(shards: Sequence[ShardUsage], limits: Thresholds, *, waited_for: bool) -> Check:
    """Many short stalls are as bad as a long one."""
    worst = max(shards, key=_stalled_ratio)
    ratio = _stalled_ratio(worst)
    limit = limits.stalled_ratio if waited_for else limits.stalled_ratio_open
    return Check.at_most(
        "client_stalled", ratio, limit, "ratio",
        f"the sender of shard {worst.shard} was held up{worst.where} for {ratio:.1%} of the window in all (at most "
        f"{limit:.1%}): answers waited for it{', and so did the next requests' if waited_for else ''}",
    )  # fmt: skip


def _median_check(shares: Sequence[ClientShare]) -> list[Check]:
    """A median that the client made is the typical request's: there is nothing to withhold it from."""
    medians = [share for share in shares if (share.series, share.name) == ("e2e_latency_ms", NAMES[0.5])]
    return [
        Check.at_most("client_share_p50", share.share_ms, share.limit_ms, "ms", share.reason)
        for share in medians
    ]


def _failure_checks(window: Window, limits: Thresholds) -> list[Check]:
    requests = max(1, int(window.measured.sum()))
    dropped = window.dropped
    failed = sum(window.error_counts().values()) - dropped
    kinds = ", ".join(f"{count} {kind}" for kind, count in window.error_counts().items())
    return [
        Check.at_most(
            "dropped", dropped / requests, limits.dropped_ratio, "ratio",
            f"{dropped} of {requests} requests were never sent ({dropped / requests:.2%}, at most "
            f"{limits.dropped_ratio:.2%})",
        ),
        Check.at_most(
            "errors", failed / requests, limits.error_ratio, "ratio",
            f"{failed} of {requests} requests failed ({failed / requests:.2%}, at most {limits.error_ratio:.2%}): "
            f"{kinds}; the latencies are of the others only",
        ),
    ]  # fmt: skip


def _send_latency_p50_ms(window: Window) -> float | None:
    """From the real send, of the good answers; None without any."""
    good = window.answered & (window.sent_ns >= 0)
    latency_ns = taken(window.done_ns, good) - taken(window.sent_ns, good)
    return float(np.median(latency_ns, overwrite_input=True)) / 1e6 if len(latency_ns) else None


def _warnings(backlog: str | None, *, answered: bool) -> list[str]:
    """What a reader should know: a backlog that grows, or no answer at all."""
    if backlog is not None:
        return [backlog]
    if not answered:
        return ["no request got a good answer: there is no latency"]
    return []
