"""Runs over REST: the list, one, its raw samples."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb import fields, frames
from inferbench_tasks.perfdb.documents import ResultDocument, RunDocument
from inferbench_tasks.perfdb.queries import parse, parse_sort
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.base import results_of
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import CSV_ROWS, Format, plain, table, wants_csv
from inferbench_tasks.provider.api.problems import blame, not_found
from inferbench_tasks.provider.api.records import records

router = APIRouter(tags=["runs"])
#: Pages further in are reached by narrowing the query (``until=``): skipping costs the store time.
MAX_OFFSET = 10_000
Q = Annotated[
    str,
    Query(
        max_length=4000,
        description="Terms that must all hold: model=resnet* backend=triton,onnxruntime batch>=4 since=7d "
        "user=x verdict=valid. GET /api/fields lists the fields.",
    ),
]
Limit = Annotated[int, Query(ge=1, le=CSV_ROWS)]
Offset = Annotated[int, Query(ge=0, le=MAX_OFFSET)]
Sort = Annotated[
    str, Query(max_length=200, description="A field; -field for descending. Newest first by default.")
]


@router.get("/fields", summary="The fields of queries, sorting and tables")
def list_fields(request: Request, format: Format = None) -> Response:
    """Name, kind, meaning and other names of each."""
    rows = [
        {"name": f.name, "kind": f.kind, "help": f.help, "aliases": list(f.aliases)}
        for f in fields.all_fields()
    ]
    return table(request, format, rows, name="fields")


@router.get("/runs", summary="Runs that match a query, a page at a time")
def list_runs(
    request: Request,
    db: Store,
    q: Q = "",
    sort: Sort = "",
    limit: Limit = 50,
    offset: Offset = 0,
    format: Format = None,
) -> Response:
    """``items``, ``next_offset`` (null on the last page) and ``truncated``: there are more that no offset reaches, so
    narrow the query (``until=``). Runs without a result have null figures; sorted by a figure they come last.
    """
    rows, more = page_of(db, q, sort, limit, offset)
    body = {"items": rows, **following(offset, limit, more)}
    return table(request, format, rows, body, name="runs", columns=columns(rows))


def columns(rows: list[dict[str, Any]]) -> list[str]:
    """Every field that these rows may have, in the order of tables."""
    return [field.name for field in fields.columns_of(rows)]


def page_of(
    db: PerfDB, q: str | list[str], sort: str, limit: int, offset: int
) -> tuple[list[dict[str, Any]], bool]:
    """One page of rows, and whether there is another."""
    with blame("q"):
        parse(q)
    with blame("sort"):
        parse_sort(sort)
    rows = frames.rows(db, q, sort, limit + 1, offset=offset)
    return rows[:limit], len(rows) > limit


def following(offset: int, limit: int, more: bool) -> dict[str, Any]:
    """``next_offset`` and ``truncated`` of a page: a list that ends where no offset leads further says so."""
    further = offset + limit
    reached = further <= MAX_OFFSET
    return {"next_offset": further if more and reached else None, "truncated": more and not reached}


@router.get("/runs/{run}", summary="One run, with everything that is known of it")
def one_run(run: str, request: Request, db: Store, format: Format = None) -> Response:
    """``run``: how it was executed, stage by stage; ``result``: its figures, null if it has none."""
    record, result = find(db, run)
    if wants_csv(request, format):
        rows = [fields.row(result.model_dump())] if result else []
        return table(request, "csv", rows, name=run, columns=columns(rows))
    document = result or (next(iter(results_of(db, record)), None) if record else None)
    body = {
        "run": record.model_dump(mode="json") if record else None,
        "result": document.model_dump(mode="json") if document else None,
    }
    return table(request, "json", [], plain(body))


@router.get(
    "/runs/{run}/samples",
    summary="The raw record of every request",
    responses={200: {"content": {"application/vnd.apache.parquet": {}, "text/csv": {}}}},
)
def samples(run: str, request: Request, db: Store, format: Format = None) -> Response:
    """Parquet, or CSV if that is asked for; columns as in ``docs/reference/perfdb.md``. It comes piece by piece."""
    _, result = find(db, run)
    if result is None or result.samples is None:
        raise not_found(f"run {run!r} has no raw samples")
    return records(request, format, db, result.samples, f"{result.run_id}.{result.attempt}")


def find(db: PerfDB, run: str) -> tuple[RunDocument | None, ResultDocument | None]:
    """The run and its result as a serving job, either may be missing; 404 if both are.

    ``latest`` is the newest run.
    """
    try:
        run_id = db.resolve_run(run) if run == "latest" else run
    except InputError as error:
        raise not_found(str(error)) from error
    records = db.find_runs({"_id": run_id})
    results = db.find_results({"run_id": run_id}, sort=(("attempt", -1),), limit=1)
    if not records and not results:
        raise not_found(f"there is no run {run!r}")
    return (records[0] if records else None), (results[0] if results else None)
