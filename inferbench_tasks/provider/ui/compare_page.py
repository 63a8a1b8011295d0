"""The page that compares runs, and its charts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import HTMLResponse, Response

from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.questions import MOST_COMPARED, chosen, compared
from inferbench_tasks.provider.ui.render import page, query

router = APIRouter(include_in_schema=False)


@router.get("/compare", response_class=HTMLResponse)
def compare(db: Store, run: Annotated[list[str], Query()] = []) -> HTMLResponse:  # noqa: B006
    """Two to six runs side by side."""
    run_texts = [text.strip() for text in run if text.strip()]
    problem, comparison = None, None
    if run_texts:
        try:
            comparison = compared(db, run_texts)
        except InputError as error:
            problem = str(error)
        except HTTPException as error:
            problem = str(error.detail)
    slots = (run_texts + [""] * MOST_COMPARED)[: max(2, min(MOST_COMPARED, len(run_texts) + 1))]
    return page(
        "compare.html",
        here="compare",
        slots=slots,
        problem=problem,
        comparison=comparison,
        figures=FIGURES,
        asked=query(run=comparison.runs) if comparison else "",
    )


@router.get("/api/compare/charts")
def charts(db: Store, run: Annotated[list[str], Query()]) -> Response:
    """The runs' latencies over each other, as plotly's JSON: ``sections`` as those of a run's page."""
    import orjson

    from inferbench_tasks.analysis.charts import density, latency
    from inferbench_tasks.analysis.report.runs import load_runs

    views = load_runs(db, [result.run_id for result in chosen(db, run)])
    found = {
        "Latencies over each other": [
            latency.cdf(views, {}),
            latency.percentiles(views, {}),
            density.density(views),
        ],
        "Over time": [latency.course(views)],
    }
    sections = [
        {"title": title, "text": "", "tables": [], "charts": drawn}
        for title, all_of in found.items()
        if (drawn := [chart for chart in all_of if chart is not None])
    ]
    body = orjson.dumps({"sections": sections}, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Response(body, media_type="application/json")
