"""Leaderboard, comparison and recommendation over REST."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.analysis.recommend.leaderboard import (
    EVERYTHING,
    Board,
    board_of,
    usual_figure,
)
from inferbench_tasks.analysis.recommend.lines import SHOWN
from inferbench_tasks.analysis.recommend.not_ranked import not_ranked_note
from inferbench_tasks.analysis.recommend.recommender import Bound, usual_objective
from inferbench_tasks.analysis.recommend.recommender import recommend as recommended
from inferbench_tasks.analysis.recommend.selection import Selection
from inferbench_tasks.analysis.report.differences import Comparison, compare_runs
from inferbench_tasks.analysis.report.runs import blocks_beside, load_runs
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.offered import BETWEEN_HOSTS
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, table
from inferbench_tasks.provider.api.problems import FieldError, blame, not_found
from inferbench_tasks.provider.api.runs import Limit, Q, find

router = APIRouter(tags=["questions"])
MOST_COMPARED = 6
MOST_REPEATS = 30


@router.get("/leaderboard", summary="The best valid results by any figure")
def leaderboard(
    request: Request,
    db: Store,
    by: Annotated[
        str,
        Query(
            description="A figure, such as p99_ms, throughput_rps, joule_per_request; by default "
            "max_rate_samples_per_s where any run that matches searched for it, else p99_ms, or output_tokens_per_s "
            "where none has that."
        ),
    ] = "",
    q: Q = "",
    limit: Limit = 20,
    format: Format = None,
) -> Response:
    """Ranked within each group of task, data set and load; ranks are equal where figures differ by noise only, or
    where it is not known which is better: ``tie`` says which. ``ci95``: of the run alone.

    What is no model (the stand-in, random weights) has a group of its own: its ``task`` says so in brackets. ``notes``:
    which results are not ranked by the figure, and why, where there is no row or it follows from the rate.
    """
    with blame("q"):
        by = by or usual_figure(db, q)
    rows = board(db, by, q, limit).rows
    note = not_ranked_note(db, by, q, listed=len(rows))
    body = {"items": rows, "notes": [note] if note else []}
    columns = (
        "rank",
        "tie",
        "task",
        "dataset",
        "load",
        FIGURES.named(by).name,
        "ci95",
        *SHOWN,
        "model_apart",
        "not_steady",
        "part",
        "run",
    )
    return table(request, format, rows, body, name="leaderboard", columns=columns)


def board(
    db: PerfDB,
    by: str,
    q: str | list[str],
    limit: int,
    beside: Sequence[str] = (),
    selection: Selection = EVERYTHING,
    in_all: int | None = None,
) -> Board:
    """The leaderboard's rows, with further figures ``beside``; FieldError names what is wrong."""
    with blame("q"):
        parse(q)
    with blame("by"):
        return board_of(db, by, q, limit, beside, selection, in_all)


@router.get("/compare", summary="Two to six runs side by side")
def compare(
    request: Request,
    db: Store,
    run: Annotated[
        list[str], Query(description="Their ids; the first is what the others are compared with.")
    ],
    format: Format = None,
) -> Response:
    """``settings`` that differ, ``figures`` with each difference's confidence, the ``environment``'s differences.

    CSV has a line per figure and run that is compared with the first.
    """
    comparison = compared(db, run)
    first = comparison.runs[0]
    rows = [
        {
            "figure": row["figure"],
            "unit": row["unit"],
            "first_run": first,
            "first_value": row[first],
            **difference,
        }
        for row in comparison.figures
        for difference in row["differences"]
    ]
    return table(request, format, rows, comparison.as_dict(), name="compare")


def compared(db: PerfDB, runs: list[str]) -> Comparison:
    """Two to six different runs; FieldError or 404 says what is wrong with them."""
    results = chosen(db, runs)
    views = load_runs(db, [result.run_id for result in results])
    repeats = {result.run_id: _repeats(db, result) for result in results}
    return compare_runs(views, repeats, blocks_beside(db, views))


def chosen(db: PerfDB, runs: list[str]) -> list[ResultDocument]:
    """The results of two to six different runs; FieldError or 404 says what is wrong with them."""
    runs = list(dict.fromkeys(runs))
    if not 2 <= len(runs) <= MOST_COMPARED:
        raise FieldError("run", f"give two to {MOST_COMPARED} different runs; these are {len(runs)}")
    results = []
    for text in runs:
        _, result = find(db, text)
        if result is None:
            raise not_found(f"run {text!r} has no result to compare")
        results.append(result)
    return results


def _repeats(db: PerfDB, result: ResultDocument) -> dict[str, list[float]]:
    """The figures of the newest valid runs of the same job on as many cores of the same device; of one between hosts
    those between the same hosts.
    """
    where: dict[str, Any] = {
        "job_id": result.job_id,
        "verdict": "valid",
        "device.name": result.device.name,
        "device.cores": result.device.cores,
    }
    if (network := result.load.network or "").startswith(BETWEEN_HOSTS):
        where["load.network"] = network
    paths = [figure.field_path for figure in FIGURES.values()]
    documents = db.find_raw(where, NEWEST_FIRST, MOST_REPEATS, fields=paths)
    summaries = [document.get("summary") or {} for document in documents]
    values_by_name = {
        name: [figure.stored(summary) for summary in summaries] for name, figure in FIGURES.items()
    }
    return {name: [v for v in values if v is not None] for name, values in values_by_name.items()}


@router.get("/recommend", summary="Which configuration to use under an SLO")
def recommend(
    request: Request,
    db: Store,
    by: Annotated[
        str,
        Query(
            description="What to optimise; by default max_rate_samples_per_s where all results that match searched for "
            "it, else throughput_samples_per_s."
        ),
    ] = "",
    slo: Annotated[list[str], Query(description="p99_ms<=100, throughput_rps>=50, ...; repeatable.")] = [],  # noqa: B006
    q: Q = "",
    load: Annotated[
        str, Query(max_length=300, description="Only results under this load: poisson, 800 samples/s.")
    ] = "",
    format: Format = None,
) -> Response:
    """``top``: at most three, with the probability that each beats the next, and why in words; ``notes``: what the
    data can't tell.
    """
    with blame("q"):
        by = by or usual_objective(db, q, load.strip() or None)
    advice = advise(db, by, slo, q, load)
    bounded = [bound(text).figure for text in slo if text.strip()]
    columns = [
        "rank",
        "configuration",
        FIGURES.named(by).name,
        "ci95",
        *bounded,
        "runs",
        "beats_next_probability",
        "expected_loss_ratio",
    ]
    columns += [*(["keeps_slo_probability"] if bounded else []), "run", "why"]
    return table(request, format, advice["top"], advice, name="recommend", columns=columns)


def advise(db: PerfDB, by: str, slo: list[str], q: str | list[str], load: str = "") -> dict[str, Any]:
    """The recommendation as plain values; FieldError names what is wrong: ``q`` where results are of several loads."""
    bounds = [bound(text) for text in slo if text.strip()]
    with blame("by"):
        FIGURES.ranking(by)
    with blame("q"):
        parse(q)
    with blame("q"):
        recommendation = recommended(db, by, bounds, q, load.strip() or None)
    return {
        "top": recommendation.top,
        "notes": recommendation.notes,
        "candidates": recommendation.candidates,
        "fitting": recommendation.fitting,
    }


def bound(text: str) -> Bound:
    """Read a bound such as ``p99_ms<=100``; what is none is blamed on ``slo``."""
    with blame("slo"):
        return Bound.parse(text)
