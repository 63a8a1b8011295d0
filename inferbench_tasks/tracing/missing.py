"""What a trace lacks of what it should tell: a layer without a span must not pass for one that took nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def samplings(each: Iterable[Mapping[str, int]]) -> dict[str, int] | None:
    """Of all servers together {runs, left_out, lost}: runs of traced requests that were sampled, how many of them lost
    samples, and how many samples the kernel told of; None where no server was sampled."""
    rows = list(each)
    return {name: sum(row[name] for row in rows) for name in ("runs", "left_out", "lost")} if rows else None


def missing_in_words(trace: Mapping[str, Any]) -> str:
    """What a trace of requests that were asked one by one lacks; empty where it is whole. ``trace``: what a result
    says of it."""
    words = []
    if lost := trace.get("lost"):
        words.append(f"The server kept nothing of {lost:,} runs or requests: a bound was reached.")
    sampling = trace.get("sampling") or {}
    if left_out := sampling.get("left_out"):
        least = f", {sampling['lost']:,} that the kernel told of" if sampling["lost"] else ""
        words.append(
            f"{left_out:,} of {sampling['runs']:,} sampled runs lost samples{least}: they are in no share of what "
            "layers ran."
        )
    if unseen := trace.get("unseen"):
        words.append(f"Monitors did not see all of it: {unseen}.")
    return " ".join(words)
