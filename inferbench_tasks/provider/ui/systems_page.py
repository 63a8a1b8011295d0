"""The page of the model x system table."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.steadiness import of_the_rate
from inferbench_tasks.analysis.systems.found import newest_models
from inferbench_tasks.analysis.systems.table import MEANINGS, RANKED, RUN_OF, table
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.ui.render import page, query

router = APIRouter(include_in_schema=False)
#: Rows of a page; where no model is named, of the models with the newest results.
MOST_ROWS = 100


@router.get("/systems", response_class=HTMLResponse)
def systems(db: Store, model: Annotated[str, Query(max_length=2000)] = "") -> HTMLResponse:
    """Models in groups, a row for each stack and system; ``model``: names, separated by spaces."""
    problem: str | None = None
    rows: list[dict[str, Any]] = []
    names = model.split()
    shown, models = (names, len(names)) if names else newest_models(db, MOST_ROWS)
    try:
        rows = table(db, shown, required=bool(names))
    except InputError as error:
        problem = str(error)
    all_rows, rows = len(rows), rows[:MOST_ROWS]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(f"{row['model']} ({row['task']})" if row["task"] else row["model"], []).append(row)
    return page(
        "systems.html",
        here="systems",
        model=model,
        groups=groups,
        meanings=MEANINGS,
        run_of=RUN_OF,
        ranked=[name for name in RANKED if any(row[name] is not None for row in rows)],
        of_the_rate=[name for name in RANKED if name in FIGURES and of_the_rate(FIGURES[name])],
        problem=problem,
        of_models=(len(shown), models) if len(shown) < models else None,
        of_rows=(len(rows), all_rows) if len(rows) < all_rows else None,
        csv="/inferbench/api/systems" + query(model=names, format="csv"),
    )
