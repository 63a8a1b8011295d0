"""The page *Bricks*: what is known of which device, predicted against measured, what is missing."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.brick_jobs import queries
from inferbench_tasks.brick_jobs.gaps import gaps
from inferbench_tasks.brick_jobs.origins import in_words
from inferbench_tasks.brick_jobs.result import BricksResult
from inferbench_tasks.brick_jobs.shared import shared
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.ui.render import page

router = APIRouter(include_in_schema=False)
#: Newest results of models that are shown, and models with gaps.
MOST_MODELS, MOST_GAPS = 100, 50
#: Settings whose gaps are looked for, those that were begun last; REST and the command look at all.
MOST_SETTINGS = 2


@router.get("/bricks", response_class=HTMLResponse)
def bricks(db: Store, device: Annotated[str, Query(max_length=300)] = "") -> HTMLResponse:
    """Coverage by device, the newest predictions beside what was measured, and what is missing."""
    problem: str | None = None
    missing: list[dict[str, Any]] = []
    grid = None
    try:
        missing = gaps(db, device, newest=MOST_SETTINGS)
        grid = shared(db, device)
    except InputError as error:
        problem = str(error)
    return page(
        "bricks.html",
        here="bricks",
        device=device,
        devices=queries.devices(db),
        models=predicted(db, device),
        gaps=missing[:MOST_GAPS],
        all_gaps=len(missing),
        shared=grid,
        problem=problem,
    )


def predicted(db: PerfDB, device: str) -> list[dict[str, Any]]:
    """The newest prediction of each model, batch size, granularity, precision and setting, with where its time goes.

    Another runtime, another version of one, or another number of threads is another setting: none stands for another.
    """
    where: dict[str, Any] = {"role": "model", "verdict": "valid"}
    if device:
        where["setting.processor"] = {"$regex": re.escape(device), "$options": "i"}
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for result in db.results_of(BricksResult, where, NEWEST_FIRST, MOST_MODELS):
        setting, precision = result.setting, result.precision
        for one in result.predictions:
            name = str(result.model.get("name"))
            rows.setdefault(
                (name, one.batch_size, one.granularity, precision, tuple(sorted(setting.items()))),
                {
                    "model": name,
                    "precision": precision,
                    "device": str(setting.get("processor", "")),
                    "runtime": setting.get("runtime"),
                    "threads": setting.get("threads"),
                    "run": result.run_id,
                    "one": one,
                    "hosts": one.timed_on or sorted({host for of in one.origins for host in of.hosts}),
                    "origins": in_words(one.origins),
                    "ratio": one.best.ms / one.measured.ms if one.measured else None,
                },
            )
    return list(rows.values())
