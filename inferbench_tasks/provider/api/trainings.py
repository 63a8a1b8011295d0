"""Trainings over REST: the list, one, its raw steps, two or more beside each other."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table, wants_csv
from inferbench_tasks.provider.api.problems import FieldError, blame, not_found
from inferbench_tasks.provider.api.questions import MOST_COMPARED
from inferbench_tasks.provider.api.records import records
from inferbench_tasks.provider.api.runs import Limit, Offset, following
from inferbench_tasks.training.comparison import Comparison
from inferbench_tasks.training.comparison import compare as compared
from inferbench_tasks.training.diagnosis.of_run import diagnosis_of
from inferbench_tasks.training.fleet.outliers import FALSE_ALARMS
from inferbench_tasks.training.fleet.rows import alone, fleets, history, lines
from inferbench_tasks.training.listing import COLUMNS, SORTS, comparison_rows, listed, result_of, row
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.scaling.rows import documents

router = APIRouter(tags=["trainings"], prefix="/trainings")
Text = Annotated[str, Query(max_length=300)]
SortBy = Annotated[
    str,
    Query(
        max_length=100,
        description=f"{', '.join(SORTS)}; -NAME: the largest first. By a figure: valid runs only. Newest first by "
        "default.",
    ),
]


def filters_of(
    submission: Text = "",
    benchmark: Text = "",
    model: Text = "",
    data: Text = "",
    device: Text = "",
    cluster: Text = "",
) -> dict[str, str]:
    """What the listed trainings have in common, by field; empty where it is not asked for."""
    filters = {
        "submission": submission, "benchmark": benchmark, "model": model, "data": data,
        "device": device, "cluster": cluster,
    }  # fmt: skip
    return {name: text.strip() for name, text in filters.items()}


Filters = Annotated[dict[str, str], Depends(filters_of)]


@router.get("", summary="Results of trainings, a page at a time")
def list_trainings(
    request: Request,
    db: Store,
    filters: Filters,
    sort: SortBy = "",
    limit: Limit = 50,
    offset: Offset = 0,
    format: Format = None,
) -> Response:
    """``items``, ``next_offset`` (null on the last page) and ``truncated``: there are more that no offset reaches.

    Times are ms; null where a run has no figures.
    """
    rows, more = page_of(db, filters, sort, limit, offset)
    body = {"items": rows, **following(offset, limit, more)}
    return table(request, format, rows, body, name="trainings", columns=COLUMNS)


def page_of(
    db: PerfDB, filters: dict[str, str], sort: str, limit: int, offset: int
) -> tuple[list[dict[str, Any]], bool]:
    """One page of rows, and whether there is another; FieldError for a name to sort by that is none."""
    with blame("sort"):
        results = listed(db, filters, sort, limit + 1, offset)
    return [row(result) for result in results[:limit]], len(results) > limit


@router.get("/compare", summary="Two to six trainings beside each other")
def compare(
    request: Request,
    db: Store,
    run: Annotated[list[str], Query(description="Their ids; each is set beside the first.")],
    format: Format = None,
) -> Response:
    """For each other run ``figures``, with the ratio to the first and its corrected 95% interval, and ``notes``."""
    comparisons: list[dict[str, Any]] = [
        {"run": first, "other": other, "figures": comparison_rows(comparison), "notes": comparison.notes}
        for first, other, comparison in compare_runs(db, run)
    ]
    rows = [
        {"first_run": of["run"], "other_run": of["other"], **figure}
        for of in comparisons
        for figure in of["figures"]
    ]
    return table(request, format, rows, {"comparisons": comparisons}, name="compare-trainings")


def compare_runs(db: PerfDB, runs: list[str]) -> list[tuple[str, str, Comparison]]:
    """Each further run by the first: (first, other, comparison).

    FieldError where they can't be compared, 404 for a run that there is not.
    """
    runs = list(dict.fromkeys(runs))
    if not 2 <= len(runs) <= MOST_COMPARED:
        raise FieldError("run", f"give two to {MOST_COMPARED} different runs; these are {len(runs)}")
    first, *others = [find(db, text) for text in runs]
    with blame("run"):
        return [(first.run_id, other.run_id, compared(first, other)) for other in others]


@router.get("/scaling", summary="Trainings over their number of ranks")
def scaling(request: Request, db: Store, filters: Filters, format: Format = None) -> Response:
    """``curves``, strong and weak, of the newest valid runs that differ in their number of ranks only.

    Each has ``points`` (speed-up with its 95% interval, efficiency, what a step lost to what, ms) and a ``forecast`` of
    more ranks, or why there is none, or none of some numbers (``no_forecast``).
    """
    with blame("submission"):
        curves = documents(db, filters)
    rows = [{"kind": of["kind"], "work": of["work"], **point} for of in curves for point in of["points"]]
    return table(request, format, rows, {"curves": curves}, name="scaling")


@router.get("/fleet", summary="Devices of a kind beside each other")
def fleet(
    request: Request,
    db: Store,
    filters: Filters,
    rate: Annotated[
        float, Query(ge=1e-6, le=0.5, description="Of fleets with equal devices so many have one named.")
    ] = FALSE_ALARMS,
    device: Text = "",
    format: Format = None,
) -> Response:
    """``items``: a line for each device and group of devices with valid runs of one job: its step, by that of the
    others, and whether it is named as slower; ``false_alarms``: the rate. With ``device`` the runs on that one.
    """
    results = listed(db, {**filters, "device": ""})
    if device:
        rows = history(results, device)
    else:
        found = fleets(results, rate)
        rows = [line for one in found for line in lines(one, alone(found))]
    return table(request, format, rows, {"items": rows, "false_alarms": rate}, name="fleet")


@router.get("/{run}", summary="One training, with everything that is known of it")
def one_training(run: str, request: Request, db: Store, format: Format = None) -> Response:
    """Its result: job, figures by timing, certificate, verdict, provenance; ``GET /runs/{run}`` has its stages."""
    result = find(db, run)
    if wants_csv(request, format):
        return table(request, "csv", [row(result)], name=result.run_id, columns=COLUMNS)
    return table(request, "json", [], plain(result.model_dump(mode="json")))


@router.get("/{run}/diagnosis", summary="What holds a training up")
def diagnosis(run: str, request: Request, db: Store, format: Format = None) -> Response:
    """``sentence``, ``causes`` (the costliest first, each with its evidence, remedy, cost and predicted gain, s),
    ``stalls`` by differences of its submission's runs, ``verified``: its remedies that were run, ms.
    """
    result = find(db, run)
    made = diagnosis_of(db, result).model_dump(mode="json")
    return table(request, format, made["causes"], plain(made), name=f"{result.run_id}.diagnosis")


@router.get(
    "/{run}/steps",
    summary="The raw record of every step of every rank",
    responses={200: {"content": {"application/vnd.apache.parquet": {}, "text/csv": {}}}},
)
def steps(run: str, request: Request, db: Store, format: Format = None) -> Response:
    """Parquet, or CSV if that is asked for: a line for each rank and step, times in ns. It comes piece by piece."""
    result = find(db, run)
    if result.samples is None:
        raise not_found(f"training {run!r} has no raw steps")
    return records(request, format, db, result.samples, f"{result.run_id}.{result.attempt}.steps")


def find(db: PerfDB, run: str) -> TrainingResult:
    """The last attempt's result; 404 without one."""
    try:
        return result_of(db, run)
    except InputError as error:
        raise not_found(str(error)) from error
