"""The pages: lists and questions. Each reads what the REST API reads, by the same functions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse

from inferbench_tasks.analysis import model_names
from inferbench_tasks.analysis.recommend.leaderboard import USUAL, any_streamed, usual_figure
from inferbench_tasks.analysis.recommend.left_out import left_out_note
from inferbench_tasks.analysis.recommend.lines import SHOWN
from inferbench_tasks.analysis.recommend.not_ranked import not_ranked_note
from inferbench_tasks.contracts.verdict import DISTURBED
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.queries import VERDICTS
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import CSV_ROWS
from inferbench_tasks.provider.api.parameters import TICKED
from inferbench_tasks.provider.api.problems import not_found
from inferbench_tasks.provider.api.questions import board
from inferbench_tasks.provider.api.regression import regression_now
from inferbench_tasks.provider.api.runs import Limit, page_of
from inferbench_tasks.provider.ui.colours import USUAL as USUAL_COLOUR
from inferbench_tasks.provider.ui.colours import colours
from inferbench_tasks.provider.ui.filters import Filters, suggestions
from inferbench_tasks.provider.ui.moved import with_steadiness
from inferbench_tasks.provider.ui.pager import leading_on
from inferbench_tasks.provider.ui.picture import ACROSS, UP, Picture
from inferbench_tasks.provider.ui.render import page, query

router = APIRouter(include_in_schema=False)
PAGE_SIZE = 50
MOST_CHARTS = 12
MOST_ROWS = CSV_ROWS
#: Rows of all groups together, unless more are asked for: there may be hundreds of groups.
ROWS_IN_ALL = 450


@router.get("/leaderboard", response_class=HTMLResponse, dependencies=[TICKED])
def leaderboard(
    db: Store,
    filters: Filters,
    picture: Picture,
    by: str = "",
    all: bool = False,
    mark: str = "",
    rows: Annotated[int | None, Query(ge=1, le=MOST_ROWS)] = None,
) -> HTMLResponse:
    """Valid runs by a figure, in groups of task, data set and load; ``all``: every run, with its verdict.

    ``rows``: of each group; as many as a page has room for where it is not given. What the picture leaves out the table
    does as well.
    """
    of_each = rows or PAGE_SIZE
    problem: str | None = None
    left_out: str | None = None
    not_ranked: str | None = None
    all_runs: str | None = None
    groups: list[dict[str, Any]] = []
    configurations = 0
    try:
        by = by or (USUAL if all else usual_figure(db, filters.terms()))
        figure = FIGURES.ranking(by)
        if all:
            sort = f"-{figure.name}" if figure.higher else figure.name
            runs, more_runs = page_of(db, filters.terms(), sort, PAGE_SIZE, 0)
            all_runs = "/inferbench/runs" + query(**filters.as_dict(), sort=sort) if more_runs else None
            models = [model_names.Named(row["model"], row.get("framework"), None) for row in runs]
            told_apart = model_names.apart(models)
            runs = [
                {**row, "model_apart": told_apart[of]}
                for row, of in zip(with_steadiness(db, runs), models, strict=True)
            ]
            groups = [{"title": "All runs", "rows": runs}] if runs else []
        else:
            left_out = left_out_note(db, filters.terms())
            beside = [f.name for f in FIGURES.on("board")]
            in_all = None if rows else ROWS_IN_ALL
            standing = board(db, by, filters.terms(), of_each, beside, picture.selection(), in_all)
            groups, configurations = _groups(standing.rows), standing.configurations
            of_each = standing.of_each
            not_ranked = not_ranked_note(db, by, filters.terms(), listed=len(standing.rows))
    except InputError as error:
        problem, figure = str(error), FIGURES["p99_ms"]
    listed = [row for group in groups for row in group["rows"]]
    for row in listed:
        row["mark"] = bool(mark) and (row["run"] == mark or row["run"].startswith(f"{mark}."))

    def told(name: str) -> bool:
        """A column that no row fills only takes room."""
        return any(row.get(name) is not None for row in listed)

    ranking = list(FIGURES.offered(streamed=any_streamed(db, "" if problem else filters.terms())))
    parameters = {**filters.as_dict(), "mark": mark, "all": "1" if all else "", "rows": rows or ""}
    if not all:
        parameters |= picture.as_dict()
    return page(
        "leaderboard.html",
        here="leaderboard",
        by=figure.name,
        all=all,
        figures=ranking,
        figure=figure,
        beside=[f for f in FIGURES.on("board") if f.name != figure.name and told(f.name)],
        settings=[name for name in (*SHOWN, "energy_method") if told(name)],
        sorts={f.name: query(**parameters, by=f.name) for f in (*ranking, figure)},
        groups=groups,
        given=filters,
        known=suggestions(db),
        problem=problem,
        left_out=left_out,
        not_ranked=not_ranked,
        disturbed="/inferbench/runs" + query(**{**filters.as_dict(), "verdict": DISTURBED}),
        q=filters.joined(),
        colours=colours(db),
        colour=picture.colour or USUAL_COLOUR,
        listed=len(listed),
        configurations=configurations,
        selected=problem is None and picture.selects,
        across=picture.x or ACROSS,
        up=picture.y or UP,
        rows=of_each,
        most=MOST_ROWS,
        all_runs=all_runs,
        more=query(**{**parameters, "by": figure.name, "rows": MOST_ROWS}) if of_each < MOST_ROWS else None,
        csv="/inferbench/api/leaderboard"
        + query(by=figure.name, q=filters.joined(), limit=CSV_ROWS, format="csv"),
    )


@router.get("/runs", response_class=HTMLResponse, dependencies=[TICKED])
def runs(
    db: Store,
    filters: Filters,
    sort: Annotated[str, Query(max_length=100)] = "",
    limit: Limit = PAGE_SIZE,
    offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> HTMLResponse:
    """All runs, the newest first unless sorted; ``limit`` of them on a page."""
    problem, more = None, False
    rows: list[dict[str, Any]] = []
    try:
        rows, more = page_of(db, filters.terms(), sort, limit, offset)
        rows = with_steadiness(db, rows)
    except InputError as error:
        problem = str(error)
    parameters = {**filters.as_dict(), "sort": sort, "limit": limit if limit != PAGE_SIZE else ""}
    streamed = any_streamed(db, "" if problem else filters.terms())
    return page(
        "runs.html",
        here="runs",
        rows=rows,
        given=filters,
        known=suggestions(db),
        verdicts=VERDICTS,
        figures=[f for f in FIGURES.values() if streamed or not f.streamed],
        shown=FIGURES.on("list"),
        sort=sort,
        problem=problem,
        previous=query(**parameters, offset=max(0, offset - limit) or None) or "?" if offset else None,
        **leading_on(parameters, offset, limit, more),
    )


@router.get("/regression", response_class=HTMLResponse)
def regression(db: Store, name: Annotated[str, Query(max_length=100)] = "") -> HTMLResponse:
    """The nightly series with their change points, and how fast the machines themselves were."""
    from inferbench_tasks.bricks.measure.levels import LEVEL_RATIO
    from inferbench_tasks.regression.machines import drifts
    from inferbench_tasks.regression.report import chart

    state = regression_now(db)
    series = [s for s in state["series"] if name in ("", s["name"])]
    return page(
        "regression.html",
        here="regression",
        state=state,
        series=series,
        name=name,
        names=sorted({s["name"] for s in state["series"]}),
        charts=[{"title": _title(s), "chart": leading(chart(s), s)} for s in series[:MOST_CHARTS]],
        more=len(series) > MOST_CHARTS,
        machines=drifts(db),
        level_percent=LEVEL_RATIO * 100,
    )


@router.get("/regression/pair", response_class=RedirectResponse)
def pair(
    db: Store, series: Annotated[str, Query(max_length=300)], session: Annotated[str, Query(max_length=100)]
) -> RedirectResponse:
    """Lead to the comparison of a session's runs of one series: the first of the baseline and of the candidate."""
    from inferbench_tasks.regression import store
    from inferbench_tasks.regression.base import SeriesKey
    from inferbench_tasks.regression.overview import pair_of
    from inferbench_tasks.regression.watched import watched

    found = next((s for s in regression_now(db)["series"] if s["id"] == series), None)
    document = next((s for s in store.sessions(db) if s.session_id == session), None)
    if found is None or document is None:
        raise not_found(f"there is no session {session!r} of a series {series!r}")
    key = SeriesKey(*(found[name] for name in ("name", "digest", "device", "figure", "cores")))
    runs = pair_of(db, key, document)
    if not runs:
        raise not_found(f"the runs of session {session} are not in PerfDB any more")
    return RedirectResponse(watched(document.of_kind).compare_page + query(run=runs))


def leading(made: dict[str, Any], series: dict[str, Any]) -> dict[str, Any]:
    """The chart, each of its points with the way to its session's runs."""
    (points,) = made["data"]
    ways = ["/inferbench/regression/pair" + query(series=series["id"], session=s) for s in points["x"]]
    return {"data": [{**points, "customdata": ways}], "layout": {**made["layout"], "meta": "links"}}


def _title(series: dict[str, Any]) -> str:
    """Of a chart; by the job as well, since a submission may have several."""
    device = f"{series['device']}, {series['cores']:g} cores" if series["cores"] else series["device"]
    parts = (series["name"], f"{series['figure']} ({series['unit']})", device)
    return f"{', '.join(parts)}, job {series['digest'][:8]}"


def _groups(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        task = " on ".join(part for part in (row["task"], row["dataset"]) if part) or "No task named"
        title = f"{task}: {row['load']}"
        groups.setdefault(title, []).append(row)
    return [{"title": title, "rows": members} for title, members in groups.items()]
