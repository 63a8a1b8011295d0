"""The pages of trainings: the list with BenchmarkJade's columns, and runs beside each other."""

from __future__ import annotations

from itertools import groupby
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.report.page import number
from inferbench_tasks.contracts.verdict import DISTURBED, split
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import CSV_ROWS
from inferbench_tasks.provider.api.parameters import TICKED
from inferbench_tasks.provider.api.questions import MOST_COMPARED
from inferbench_tasks.provider.api.trainings import Filters, compare_runs, page_of
from inferbench_tasks.provider.ui.pager import leading_on
from inferbench_tasks.provider.ui.render import page, query
from inferbench_tasks.training.jade import COLUMNS as JADE
from inferbench_tasks.training.listing import SORTS, comparison_rows
from inferbench_tasks.training.report.views import PHASES

router = APIRouter(include_in_schema=False)
PAGE_SIZE = 50
#: Columns of figures: field -> title, whether a disturbance makes it smaller.
_FIGURES = {
    "samples_per_s": ("samples/s", True),
    "step_ms": ("step, ms", False),
    **{f"{name}_ms": (f"{name.replace('_', ' ')}, ms", False) for name in PHASES},
    "events_step_ms": ("step, ms", False),
    **{f"events_{name}_ms": (f"{name.replace('_', ' ')}, ms", False) for name in PHASES},
    **{f"jade_{name}_ms": (f"{name.replace('_', ' ')}, ms", False) for name in JADE},
    "jade_step_ms": ("step, ms", False),
}
#: What a column's name begins with -> the timing that it is by.
_TIMINGS = {
    "samples_per_s": "no instruments",
    "events_": "events (the device's stamps)",
    "jade_": "jade (its own clock)",
}


@router.get("/trainings", response_class=HTMLResponse, dependencies=[TICKED])
def trainings(
    db: Store,
    filters: Filters,
    sort: Annotated[str, Query(max_length=100)] = "",
    offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> HTMLResponse:
    """Results of trainings, the newest first unless sorted."""
    problem, more = None, False
    rows: list[dict[str, Any]] = []
    try:
        rows, more = page_of(db, filters, sort, PAGE_SIZE, offset)
    except InputError as error:
        problem = str(error)
    parameters = {**filters, "sort": sort}
    # A column that no row fills only takes room.
    shown = {name: title for name, (title, _) in _FIGURES.items() if any(row.get(name) for row in rows)}
    return page(
        "trainings.html",
        here="trainings",
        rows=[row | {name: shown_figure(row, name) for name in shown} for row in rows],
        shown=shown,
        timings=[(title, len(list(names))) for title, names in groupby(shown, _timing)],
        links={name: _sorted_by(name, sort, filters) for name in shown},
        filters=filters,
        filled=any(filters.values()),
        sort=sort,
        sorts=tuple(SORTS),
        problem=problem,
        csv="/inferbench/api/trainings" + query(**parameters, limit=CSV_ROWS, format="csv"),
        previous=query(**parameters, offset=max(0, offset - PAGE_SIZE) or None) or "?" if offset else None,
        **leading_on(parameters, offset, PAGE_SIZE, more),
    )


@router.get("/trainings/compare", response_class=HTMLResponse)
def compare(db: Store, run: Annotated[list[str], Query()] = []) -> HTMLResponse:  # noqa: B006
    """Two to six trainings: each further one by the first."""
    runs = [text.strip() for text in run if text.strip()]
    problem = None
    comparisons: list[dict[str, Any]] = []
    if runs:
        try:
            comparisons = [
                {"run": first, "other": other, "rows": comparison_rows(comparison), "notes": comparison.notes}
                for first, other, comparison in compare_runs(db, runs)
            ]
        except InputError as error:
            problem = str(error)
        except HTTPException as error:
            problem = str(error.detail)
    slots = (runs + [""] * MOST_COMPARED)[: max(2, min(MOST_COMPARED, len(runs) + 1))]
    return page(
        "compare_trainings.html", here="trainings", slots=slots, problem=problem, comparisons=comparisons
    )


def _timing(name: str) -> str:
    """The timing that a column is by."""
    return next((title for start, title in _TIMINGS.items() if name.startswith(start)), "synchronised")


def _sorted_by(name: str, sort: str, filters: dict[str, str]) -> str | None:
    """The list by a column, the other way round once it is sorted by it: fast runs first."""
    if name not in SORTS:
        return None
    first = f"-{name}" if _FIGURES[name][1] else name
    other = name if _FIGURES[name][1] else f"-{name}"
    return "/inferbench/trainings" + query(**filters, sort=other if sort == first else first)


def shown_figure(row: dict[str, Any], name: str) -> str:
    """A figure in the table; of a disturbed run it is a bound, with its sign."""
    text = number(row.get(name))
    if row.get(name) is None or split(row["verdict"])[0] != DISTURBED:
        return text
    return ("≥ " if _FIGURES[name][1] else "≤ ") + text
