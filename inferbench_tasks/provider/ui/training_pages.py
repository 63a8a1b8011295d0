"""The pages of trainings over their number of ranks, and of clusters."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.charts.style import Chart, axis, chart, line
from inferbench_tasks.cluster.store import Cluster
from inferbench_tasks.errors import InputError
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.trainings import Filters
from inferbench_tasks.provider.ui.render import page, query
from inferbench_tasks.training import clusters as of_clusters
from inferbench_tasks.training.comparison import compare
from inferbench_tasks.training.listing import comparison_rows
from inferbench_tasks.training.scaling.parts import Parts
from inferbench_tasks.training.scaling.rows import documents

router = APIRouter(include_in_schema=False)
Name = Annotated[str, Query(max_length=300)]


@router.get("/trainings/scaling", response_class=HTMLResponse)
def scaling(db: Store, filters: Filters) -> HTMLResponse:
    """Strong and weak scaling: speed-up with its interval, what a step lost to what, and a prediction by its name."""
    problem, curves = None, []
    try:
        curves = documents(db, filters)
    except InputError as error:
        problem = str(error)
    return page(
        "scaling.html",
        here="trainings",
        filters=filters,
        curves=[curve | {"chart": drawn(curve)} for curve in curves],
        parts=Parts.NAMES,
        problem=problem,
        csv="/inferbench/api/trainings/scaling" + query(**filters, format="csv"),
    )


def drawn(curve: dict[str, Any]) -> Chart:
    """Measured speed-up with its 95% interval, the ideal, and the bounds of the prediction, apart by their names."""
    points, predicted = curve["points"], curve["forecast"]
    ranks = [point["ranks"] for point in points]
    base = ranks[0]
    far = max([*ranks, *(of["ranks"] for of in predicted)])
    known = [point for point in points if point["speedup_low"] is not None]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "name": "ideal", "x": [base, far], "y": [1, far / base],
            "line": {"color": "#888888", "dash": "dot"}, "hoverinfo": "skip",
        },
        {
            "type": "scatter", "mode": "lines+markers", "name": "measured", "x": ranks,
            "y": [point["speedup"] for point in points], "line": line(0),
            "hovertemplate": "%{x} ranks: %{y:.3f}<extra></extra>",
        },
        {
            "type": "scatter", "mode": "lines", "name": "95% interval", "line": {"color": "#0072B2", "width": 3},
            "x": [x for point in known for x in (point["ranks"], point["ranks"], None)],
            "y": [y for point in known for y in (point["speedup_low"], point["speedup_high"], None)],
            "hoverinfo": "skip",
        },
    ]  # fmt: skip
    for name, bound in (("predicted, at least", "speedup_low"), ("predicted, at most", "speedup_high")):
        if predicted:
            data.append(
                {
                    "type": "scatter", "mode": "lines+markers", "name": name,
                    "x": [of["ranks"] for of in predicted], "y": [of[bound] for of in predicted],
                    "line": {"color": "#D55E00", "dash": "dash"},
                    "hovertemplate": f"%{{x}} ranks: {name} %{{y:.3f}}<extra></extra>",
                }
            )  # fmt: skip
    return chart(
        data,
        title=f"{curve['kind'].capitalize()} scaling",
        xaxis=axis("ranks"),
        yaxis=axis(f"speed-up over {base} rank{'s' if base > 1 else ''}", rangemode="tozero"),
    )


@router.get("/trainings/clusters", response_class=HTMLResponse)
def clusters(db: Store, first: Name = "", second: Name = "") -> HTMLResponse:
    """What there is of each name; two of them by their newest valid runs of the same job."""
    rows = of_clusters.rows(db, Cluster(db).devices())
    problem, comparison = None, None
    if first and second:
        try:
            pair = of_clusters.pair(db, first, second)
            if pair is None:
                raise InputError(f"{first} or {second} has no valid training")
            compared = compare(*pair)
            comparison = {
                "first": pair[0].run_id,
                "second": pair[1].run_id,
                "rows": comparison_rows(compared),
                "notes": compared.notes,
            }
        except InputError as error:
            problem = str(error)
    return page(
        "clusters.html",
        here="trainings",
        rows=rows,
        names=[row["cluster"] for row in rows],
        first=first,
        second=second,
        comparison=comparison,
        problem=problem,
    )
