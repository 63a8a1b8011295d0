"""The pages of evaluations: how right answers were beside how fast, two in pairs, and the parts of one together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.evaluations.found import evaluations
from inferbench_tasks.analysis.evaluations.listed import SPEED
from inferbench_tasks.analysis.evaluations.stored import compare_stored, together_stored
from inferbench_tasks.errors import InputError
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import CSV_ROWS
from inferbench_tasks.provider.api.parameters import TICKED
from inferbench_tasks.provider.ui.filters import Filters, suggestions
from inferbench_tasks.provider.ui.pager import leading_on
from inferbench_tasks.provider.ui.render import page, query
from inferbench_tasks.submission.part import MOST_PARTS

router = APIRouter(include_in_schema=False)
PAGE_SIZE = 50
Run = Annotated[list[str], Query(max_length=MOST_PARTS)]
#: Of samples that two runs answer otherwise so many are shown at a time.
SHOWN = 100


@dataclass(frozen=True)
class Evaluated:
    """Rows of evaluated runs with the columns that any of them fills: ``others`` are measures that packages bring."""

    rows: Sequence[dict[str, Any]]
    measures: Sequence[Figure]
    others: Sequence[str]
    speed: Sequence[Figure]

    @classmethod
    def of(cls, rows: Sequence[dict[str, Any]]) -> Evaluated:
        """With all columns that they need."""
        names = {name for row in rows for name in row["measures"]}
        return cls(
            rows,
            [figure for figure in FIGURES.values() if figure.name in names],
            sorted(name for name in names if name not in FIGURES),
            [FIGURES[name] for name in SPEED if any(row[name] is not None for row in rows)],
        )


@router.get("/evaluations", response_class=HTMLResponse, dependencies=[TICKED])
def list_evaluations(
    db: Store,
    filters: Filters,
    dataset: Annotated[str, Query(max_length=200)] = "",
    offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> HTMLResponse:
    """Evaluated runs, the newest first; a column for each measure that any of them has."""
    problem, rows = None, []
    try:
        rows = evaluations(db, filters.terms(), dataset.strip(), PAGE_SIZE + 1, offset)
    except InputError as error:
        problem = str(error)
    more, rows = len(rows) > PAGE_SIZE, rows[:PAGE_SIZE]
    parameters = {**filters.as_dict(), "dataset": dataset}
    return page(
        "evaluations.html",
        here="evaluations",
        of=Evaluated.of(rows),
        given=filters,
        dataset=dataset,
        known=suggestions(db),
        problem=problem,
        csv="/inferbench/api/evaluations"
        + query(q=filters.joined(), dataset=dataset, limit=CSV_ROWS, format="csv"),
        previous=query(**parameters, offset=max(0, offset - PAGE_SIZE) or None) or "?" if offset else None,
        **leading_on(parameters, offset, PAGE_SIZE, more),
    )


@router.get("/evaluations/compare", response_class=HTMLResponse)
def compare(
    db: Store,
    run: Annotated[list[str], Query()] = [],  # noqa: B006
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> HTMLResponse:
    """Two evaluations in pairs, with the samples that they answer otherwise."""
    runs = [text.strip() for text in run if text.strip()]
    problem: str | None = None
    pairs: dict[str, Any] | None = None
    if runs:
        try:
            pairs = compare_stored(db, runs, SHOWN, offset)
        except InputError as error:
            problem = str(error)
    following = pairs["next_offset"] if pairs else None
    return page(
        "compare_evaluations.html",
        here="evaluations",
        slots=[*runs, "", ""][: max(2, len(runs))],
        pairs=pairs,
        problem=problem,
        next=query(run=runs, offset=following) if following else None,
    )


@router.get("/evaluations/together", response_class=HTMLResponse)
def in_one(db: Store, run: Run = []) -> HTMLResponse:  # noqa: B006
    """The parts of one evaluation as one, with each measure made anew."""
    runs = [text.strip() for text in run if text.strip()]
    problem: str | None = None
    whole: dict[str, Any] | None = None
    if runs:
        try:
            whole = together_stored(db, runs)
        except InputError as error:
            problem = str(error)
    rest = "/inferbench/api/evaluations/together"
    return page(
        "evaluations_together.html",
        here="evaluations",
        slots=runs or [""],
        whole=whole,
        titles={name: FIGURES[name] for name in whole["measures"] if name in FIGURES} if whole else {},
        problem=problem,
        csv=rest + query(run=runs, format="csv"),
        json=rest + query(run=runs),
    )
