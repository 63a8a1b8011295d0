"""A bisection that a night starts: from what it confirmed to what is asked of the walk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.regression.bisect import steps
from inferbench_tasks.regression.bisect.offer import DETECT_PERCENT
from inferbench_tasks.regression.bisect.session import Request
from inferbench_tasks.regression.sides import own_checkout


def request_of(file: Path, start: Mapping[str, Any]) -> Request:
    """Between the commits ``good`` and ``bad`` of this checkout, by ``figure`` of the ``job``, for a change of
    ``detect_percent``; what is not there is as of a bisection by hand.

    Raises InputError where a commit is not named, or is not in this checkout.
    """
    if missing := [name for name in ("good", "bad") if not start.get(name)]:
        raise InputError(f"A bisection needs a commit for {' and '.join(missing)}.", field=missing[0])
    commits = steps.commits(own_checkout(), str(start["good"]), str(start["bad"]))
    figure, job = str(start.get("figure") or "p50_ms"), int(start.get("job") or 0)
    return Request(file, commits, figure, job, float(start.get("detect_percent") or DETECT_PERCENT) / 100)
