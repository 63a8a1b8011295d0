"""The points of the leaderboard's picture over REST: two figures of every configuration."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.analysis.recommend import available
from inferbench_tasks.analysis.recommend.scatter import Point, scatter
from inferbench_tasks.figure import Figure
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, table, wants_csv
from inferbench_tasks.provider.api.problems import blame
from inferbench_tasks.provider.api.runs import Q

router = APIRouter(tags=["questions"])
COLUMNS = Point._fields
#: What is not looked for among too many points: left out of a CSV then, in which an empty cell would say that there is
#: none.
_LOOKED_FOR = ("x_interval", "y_interval", "not_steady")
Name = Annotated[str, Query(max_length=300)]


@router.get("/points", summary="Two figures of every configuration, and the front that nothing beats")
def points(
    request: Request,
    db: Store,
    x: Name = "p99_ms",
    y: Name = "throughput_samples_per_s",
    colour: Name = "backend",
    q: Q = "",
    format: Format = None,
) -> Response:
    """The newest valid run of each configuration, at most 10,000; ``front``: best within its task and data set.

    JSON has ``columns`` and ``rows`` in their order, and of ``colour`` whether all that is known are numbers; CSV names
    the figures. ``not_steady``: why a figure is of a rate that moved; like intervals it is looked for among 500 points
    at most (``looked_into``); a CSV of more points does not have these columns.
    """
    with blame("q"):
        found = scatter(db, x, y, colour, q)
    names = {"x": found.x.name, "y": found.y.name, "colour": colour}
    columns = [names.get(column, column) for column in COLUMNS]
    cells = list(map(list, found.points))
    body = {
        "x": _about(found.x),
        "y": _about(found.y),
        "colour": {
            "name": colour,
            "unit": FIGURES[colour].unit if colour in FIGURES else "",
            "kind": "number" if found.numbers else "text",
        },
        "columns": COLUMNS,
        "rows": cells,
        "left_out": found.left_out,
        "looked_into": found.looked_into,
    }
    rows = [dict(zip(columns, row, strict=True)) for row in cells] if wants_csv(request, format) else []
    if not found.looked_into:
        rows = [{name: value for name, value in row.items() if name not in _LOOKED_FOR} for row in rows]
        columns = [name for name in columns if name not in _LOOKED_FOR]
    return table(request, format, rows, body, name="points", columns=columns)


@router.get("/range", summary="The lowest and the highest value of a figure")
def value_range(request: Request, db: Store, figure: Name = "p99_ms", q: Q = "") -> Response:
    """Of valid results; ``low`` and ``high`` are null where none has it. By name what the figure is called here."""
    with blame("figure"):
        named = FIGURES.ranking(figure)
    with blame("q"):
        low, high = available.value_range(db, named, q) or (None, None)
    return table(request, "json", [], {"figure": named.name, "unit": named.unit, "low": low, "high": high})


def _about(figure: Figure) -> dict[str, Any]:
    return {
        "name": figure.name,
        "meaning": figure.meaning,
        "unit": figure.unit,
        "higher": figure.higher,
        "formula": figure.formula,
    }
