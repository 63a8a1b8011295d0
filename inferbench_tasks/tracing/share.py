"""Of how much of a load a trace is: a number of spans must not pass for one of all requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.tracing.two_hosts import hosts_in_words


def share_in_words(trace: Mapping[str, Any]) -> str | None:
    """``51 of 1,000 requests of the load were traced, 1 in 20 by chance``; None of a trace of all that were asked.

    ``trace``: what a result says of it, see ``stages.traced_load``.
    """
    if trace.get("one_in") is None or "problem" in trace:
        return None
    words = (
        f"{trace['requests']:,} of {trace['of']:,} requests of the load were traced, 1 in {trace['one_in']:,} "
        "by chance"
    )
    if failed := trace["failed"]:
        words += f"; {failed:,} more were chosen and got no good answer"
    # What the server counted as ``lost`` is of the whole load, also before and after its measured window.
    if unanswered := trace["unanswered"]:
        words += f"; the server kept nothing of {unanswered:,}"
        if trace["lost"]:
            words += ", for it keeps so many and no more: what it tells is of the load's beginning"
    return "; ".join(filter(None, (words, hosts_in_words(trace))))


def doubts_in_words(trace: Mapping[str, Any]) -> str:
    """Why the load was not the one that was asked for; empty where it was."""
    doubts = trace.get("doubts") or ()
    return f"Its load does not count: {'; '.join(doubts)}." if doubts else ""
