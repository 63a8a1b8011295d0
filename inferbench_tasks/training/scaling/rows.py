"""Curves of stored results, as documents and lines of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.training.diagnosis import raw
from inferbench_tasks.training.listing import listed
from inferbench_tasks.training.scaling.curve import Curve, Point, curves
from inferbench_tasks.training.scaling.forecast import RANKS, Forecast, forecast
from inferbench_tasks.training.scaling.parts import Parts

MOST_RANKS = 1024


def documents(db: PerfDB, filters: Mapping[str, str], ranks: Sequence[int] = RANKS) -> list[dict[str, Any]]:
    """A document for each curve of the results that the filters (``listing.FILTERS``) leave.

    InputError where there is none, or for a number of ranks that is none.
    """
    if any(not 2 <= count <= MOST_RANKS for count in ranks):
        raise InputError(
            f"forecasts are of 2 to {MOST_RANKS} ranks; got {', '.join(map(str, ranks))}", field="ranks"
        )
    found = curves(listed(db, filters), lambda result: raw.ranks_of(db, result))
    if not found:
        raise InputError(
            "no two valid trainings of the same work differ in their number of ranks only; run one submission with "
            "`sweep: {devices.processes: [1, 2]}` (or devices.count) and strategy ddp"
        )
    return [_document(curve, ranks) for curve in found]


def _document(curve: Curve, ranks: Sequence[int]) -> dict[str, Any]:
    predicted, reason = forecast(curve, ranks)
    return {
        "kind": curve.kind,
        "work": curve.work,
        "points": [_point(point) for point in curve.points],
        "forecast": [_forecast(of) for of in predicted],
        "no_forecast": reason,
    }


def _point(point: Point) -> dict[str, Any]:
    low, high = point.speedup_ci95 or (None, None)
    parts = {f"{name}_ms": point.parts.of(name) if point.parts else None for name in Parts.NAMES}
    lost = {f"lost_to_{name}_ms": point.lost_ms[name] if point.lost_ms else None for name in Parts.NAMES}
    return {
        "ranks": point.ranks,
        "run": point.run_id,
        "batch": point.batch_size,
        "cores": point.cores,
        "samples_per_s": point.samples_per_s,
        "speedup": point.speedup,
        "speedup_low": low,
        "speedup_high": high,
        "efficiency": point.efficiency,
        "step_ms": point.step_ms,
        "ideal_step_ms": point.ideal_step_ms,
        **parts,
        **lost,
    }


def _forecast(of: Forecast) -> dict[str, Any]:
    return {
        "ranks": of.ranks,
        "speedup_low": of.speedup[0],
        "speedup_high": of.speedup[1],
        "efficiency_low": of.efficiency[0],
        "efficiency_high": of.efficiency[1],
    }
