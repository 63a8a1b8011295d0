"""The command that finds which commit made a confirmed change."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any


def offer(change: Mapping[str, Any], file: str) -> str | None:
    """Of a change of the overview; None where its sides are not of two commits."""
    start = change.get("bisect")
    if not start:
        return None
    figure = [] if start["figure"] == "p50_ms" else ["--figure", start["figure"]]
    ends = ["--good", start["good"][:12], "--bad", start["bad"][:12]]
    return shlex.join(["inferbench", "regress", "bisect", file, *ends, *figure])
