"""The page that recommends a configuration under an objective."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.recommend.available import available, value_range
from inferbench_tasks.analysis.recommend.candidates import Bound
from inferbench_tasks.analysis.recommend.comparable import IN_ORDER, SeveralGrounds
from inferbench_tasks.analysis.recommend.recommender import THROUGHPUT, usual_objective
from inferbench_tasks.errors import InputError
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.offered import in_words_of_now
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.problems import blame
from inferbench_tasks.provider.api.questions import advise, bound
from inferbench_tasks.provider.ui.filters import Filters, Given, suggestions
from inferbench_tasks.provider.ui.render import page, query

router = APIRouter(include_in_schema=False)
#: Fields for so many bounds; a link may have more.
SLOTS = 3
#: Of grounds between which no figure chooses so many are offered.
MOST_WAYS = 8
_Texts = Annotated[list[str], Query(max_length=20)]
_Load = Annotated[str, Query(max_length=300)]


@router.get("/recommend", response_class=HTMLResponse)
def recommend(
    db: Store,
    filters: Filters,
    by: str = "",
    slo: _Texts = [],  # noqa: B006
    bounded: _Texts = [],  # noqa: B006
    sign: _Texts = [],  # noqa: B006
    value: _Texts = [],  # noqa: B006
    load: _Load = "",
    ask: bool = False,
) -> HTMLResponse:
    """The form, and the answer once something was asked.

    Bounds come as REST takes them (``slo``), or field by field from the form.
    """
    problem, advice = None, None
    load = in_words_of_now(load)
    grounds: list[dict[str, Any]] = []
    more_grounds = 0
    texts: list[str] = []
    bounds: list[Bound] = []
    try:
        by = by or usual_objective(db, filters.terms(), load.strip() or None)
        FIGURES.ranking(by)
        texts = [text for text in slo if text.strip()] + of_fields(bounded, sign, value)
        bounds = [bound(text) for text in texts]
        if ask or texts:
            advice = advise(db, by, texts, filters.terms(), load)
    except InputError as error:
        problem, by = str(error), by if by in FIGURES else THROUGHPUT
        if isinstance(several := error.__cause__, SeveralGrounds):
            problem = several.why
            same = {"by": by, "slo": texts, "ask": 1}
            grounds = ways(several, filters, same)
            more_grounds = len(several.counts) - len(grounds)
    try:
        there = available(db, filters.terms(), load.strip())
    except InputError:  # the page says already what is wrong with the conditions
        there = available(db)
    by = FIGURES[by].name if by in FIGURES else by
    return page(
        "recommend.html",
        here="recommend",
        figures=choices(there.figures, [by, *(b.figure for b in bounds)]),
        loads=there.loads,
        by=by,
        slots=(bounds + [None] * SLOTS)[: max(SLOTS, len(bounds))],
        load=load,
        given=filters,
        known=suggestions(db),
        problem=problem,
        grounds=grounds,
        more_grounds=more_grounds,
        advice=advice,
        bounds=", ".join(map(str, bounds)),
        bounded=[b.figure for b in bounds],
    )


@router.get("/recommend/offers")
def offered(db: Store, filters: Filters, load: _Load = "", figure: _Texts = []) -> dict[str, Any]:  # noqa: B006
    """What the form's fields offer under the conditions that it is filled with.

    ``figures``: name, meaning and usual sign of each that has values; ``loads``; ``ranges``: of each ``figure`` that
    is asked for [low, high], null where none has it. FieldError for conditions that are not understood.
    """
    with blame("q"):
        there = available(db, filters.terms(), load.strip())
    with blame("figure"):
        asked = [FIGURES.ranking(name) for name in figure]
    return {
        "figures": [_choice(each) for each in choices(there.figures)],
        "loads": there.loads,
        "ranges": {each.name: value_range(db, each, filters.terms(), load.strip()) for each in asked},
    }


def ways(several: SeveralGrounds, filters: Given, same: dict[str, Any]) -> list[dict[str, Any]]:
    """A link to the same question of each of ``MOST_WAYS`` grounds, those with most configurations first."""
    order = sorted(several.counts.items(), key=lambda each: (-each[1], IN_ORDER(each[0])))[:MOST_WAYS]
    return [
        {
            "words": ground.words,
            "count": count,
            "way": "/inferbench/recommend"
            + query(
                **{
                    **filters.as_dict(),
                    **same,
                    "q": " ".join(filter(None, [filters.q.strip(), *map(shlex.quote, ground.terms)])),
                    "load": ground.load,
                }
            ),
        }
        for ground, count in order
    ]


def choices(there: Sequence[Figure], chosen: Sequence[str] = ()) -> list[Figure]:
    """The figures that have values, and those that are chosen; all that are usual where nothing has any."""
    names = {figure.name for figure in there or FIGURES.offered()} | set(chosen)
    return [figure for figure in FIGURES.offered(streamed=True) if figure.name in names]


def _choice(figure: Figure) -> dict[str, str]:
    return {"name": figure.name, "meaning": figure.meaning, "sign": ">=" if figure.higher else "<="}


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
