"""Regressions over REST: series, their confirmed changes, what they can detect."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, table

router = APIRouter(tags=["regression"])
#: Of CSV: a series, and its point of one session.
COLUMNS = (
    "series", "figure", "unit", "session", "at", "change_percent", "baseline_id", "baseline", "candidate"
)  # fmt: skip
_cache: dict[str, tuple[Any, dict[str, Any]]] = {}


@router.get("/regression", summary="The nightly series with their change points")
def regression(request: Request, db: Store, format: Format = None) -> Response:
    """``series``, ``sessions``, ``regressions``, ``improvements``, ``suspicions``; CSV has a line per session."""
    answer = regression_now(db)
    points = [
        {"series": series["id"], "figure": series["figure"], "unit": series["unit"], **point}
        for series in answer["series"]
        for point in series["points"]
    ]
    return table(request, format, points, answer, name="regression", columns=COLUMNS)


def regression_now(db: PerfDB) -> dict[str, Any]:
    """The overview; worked out again when there is a new session or run, since it tests every history.

    All series at once: their false discovery rate is controlled together.
    """
    from inferbench_tasks.regression import store
    from inferbench_tasks.regression.overview import overview

    state = [(s.session_id, len(s.runs), s.ended_at) for s in store.sessions(db)]
    cached = _cache.get(db.uri)
    if cached is None or cached[0] != state:
        cached = (state, overview(db))
        _cache[db.uri] = cached
    return cached[1]
