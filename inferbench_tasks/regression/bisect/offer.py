"""The command that finds which commit made a confirmed change, and what starts by itself where a night may."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

#: The smallest change of the ends that a bisection looks for unasked, per cent.
DETECT_PERCENT = 3.0


def start_of(changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a bisection of a night's regressions starts from: the first that lies between two commits; None without.

    Further figures of one night mostly changed by the same commit; their commands are given as ever.
    """
    starts = [change["bisect"] for change in changes["regressions"] if change.get("bisect")]
    return dict(starts[0]) if starts else None


def offer(change: Mapping[str, Any], file: str) -> str | None:
    """Of a change of the overview; None where its sides are not of two commits."""
    start = change.get("bisect")
    if not start:
        return None
    figure = [] if start["figure"] == "p50_ms" else ["--figure", start["figure"]]
    ends = ["--good", start["good"][:12], "--bad", start["bad"][:12]]
    more = [f"--job {start['job']}"] if start.get("job") else []
    more += [f"--detect {start['detect_percent']:g}"] if start.get("detect_percent") else []
    options = [part for option in more for part in option.split()]
    return shlex.join(["inferbench", "regress", "bisect", file, *ends, *figure, *options])
