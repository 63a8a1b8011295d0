"""The page that recommends a configuration under an objective."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.leaderboard import any_streamed
from inferbench_tasks.analysis.recommend.recommender import THROUGHPUT, usual_objective
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.questions import advise, bound
from inferbench_tasks.provider.ui.filters import Filters, suggestions
from inferbench_tasks.provider.ui.render import page

router = APIRouter(include_in_schema=False)
#: Fields for so many bounds; a link may have more.
SLOTS = 3
_Texts = Annotated[list[str], Query(max_length=20)]


@router.get("/recommend", response_class=HTMLResponse)
def recommend(
    db: Store,
    filters: Filters,
    by: str = "",
    slo: _Texts = [],  # noqa: B006
    bounded: _Texts = [],  # noqa: B006
    sign: _Texts = [],  # noqa: B006
    value: _Texts = [],  # noqa: B006
    load: Annotated[str, Query(max_length=300)] = "",
    ask: bool = False,
) -> HTMLResponse:
    """The form, and the answer once something was asked.

    Bounds come as REST takes them (``slo``), or field by field from the form.
    """
    problem, advice = None, None
    bounds: list[Bound] = []
    try:
        by = by or usual_objective(db, filters.terms(), load.strip() or None)
        texts = [text for text in slo if text.strip()] + of_fields(bounded, sign, value)
        bounds = [bound(text) for text in texts]
        if ask or texts:
            advice = advise(db, by, texts, filters.terms(), load)
    except InputError as error:
        problem, by = str(error), by or THROUGHPUT
    offered = FIGURES.offered(streamed=any_streamed(db, "" if problem else filters.terms()))
    return page(
        "recommend.html",
        here="recommend",
        objectives=[f.name for f in offered],
        figures=offered,
        by=FIGURES[by].name if by in FIGURES else by,
        slots=(bounds + [None] * SLOTS)[: max(SLOTS, len(bounds))],
        load=load,
        given=filters,
        known=suggestions(db),
        problem=problem,
        advice=advice,
        bounds=", ".join(map(str, bounds)),
        bounded=[b.figure for b in bounds],
    )


def of_fields(figures: Sequence[str], signs: Sequence[str], values: Sequence[str]) -> list[str]:
    """The bounds of the form's fields, as texts; InputError for a bound with a part of it alone."""
    texts = []
    for number, parts in enumerate(zip_longest(figures, signs, values, fillvalue=""), 1):
        figure, sign, value = (part.strip() for part in parts)
        if bool(figure) != bool(value):
            missing = "a figure" if value else f"a value for {figure}"
            raise InputError(f"bound {number}: {missing} is missing", field="slo")
        if figure:
            texts.append(f"{figure}{sign}{value}")
    return texts
