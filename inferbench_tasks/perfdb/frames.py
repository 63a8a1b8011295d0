"""Results as tables: flat rows, a pandas frame, and files (CSV, Parquet, JSON)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.perfdb import fields, in_order
from inferbench_tasks.perfdb.indexes import index_of_newest
from inferbench_tasks.perfdb.patterns import resolved
from inferbench_tasks.perfdb.queries import parse, parse_sort
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.spreadsheet import harmless_table

if TYPE_CHECKING:
    import pandas

EXPORTS = ("csv", "parquet", "json")


def rows(
    db: PerfDB,
    query: str | Iterable[str] = "",
    sort: str = "",
    limit: int = 0,
    *,
    offset: int = 0,
    unfinished: bool = True,
) -> list[dict[str, Any]]:
    """One flat row per result (``fields.all_fields``), newest first, or as ``sort`` says; ``offset`` are left out.

    ``unfinished``: with the runs that have no result (failed, cancelled, running), their figures None. Sorted by a
    figure, results without it come behind the others, and those runs last; by ``created`` each is in its place.
    """
    conditions = parse(query)
    filter = resolved(db, conditions.filter)

    def read(where: dict[str, Any], order: in_order.Order, count: int, skip: int) -> list[dict[str, Any]]:
        index = index_of_newest(where) if order is NEWEST_FIRST else None
        names = [f.path for f in fields.all_fields()]
        results = db.find_raw(where, order, count, skip, fields=names, index=index)
        return [fields.row(to_plain(result)) for result in results]

    def without(count: int, oldest_first: bool = False) -> list[dict[str, Any]]:
        if not unfinished or conditions.run_filter is None:
            return []
        return _unfinished(db, conditions.run_filter, count, oldest_first)

    order: in_order.Order = parse_sort(sort) or NEWEST_FIRST
    if order[0][0] != NEWEST_FIRST[0][0]:
        last: in_order.Part[dict[str, Any]] = (
            lambda skip, count: without(skip + count if count else 0)[skip:],
            lambda: 0,
        )
        return in_order.page([*in_order.parts(db, read, filter, order), last], limit, offset)
    newest_first, end = order[0][1] < 0, offset + limit if limit else 0
    beside = without(end, oldest_first=not newest_first)
    # So many results at least are before the page, wherever the runs without one stand.
    skip = max(0, offset - len(beside))
    count = end - skip if end else 0
    merged = (
        in_order.ordered(db, read, filter, order, count, skip) if sort else read(filter, order, count, skip)
    )
    if beside:
        merged = sorted([*merged, *beside], key=lambda row: row["created"], reverse=newest_first)
    return merged[offset - skip : end - skip if end else None]


def _unfinished(
    db: PerfDB, run_filter: dict[str, Any], limit: int, oldest_first: bool
) -> list[dict[str, Any]]:
    """Runs without a result, as rows of the same fields."""
    unfinished = []
    for run in db.find_runs_without_result(run_filter, limit, oldest_first=oldest_first):
        document = {"_id": run["_id"], **run}
        row = {f.name: None for f in fields.all_fields() if not f.streamed}
        for f in fields.all_fields():
            if f.run_path is not None:
                row[f.name] = fields.Field(f.name, f.run_path, f.kind, "").value(document)
        row["verdict"] = run.get("verdict") or run.get("status")
        unfinished.append(row)
    return unfinished


def frame(db: PerfDB, query: str | Iterable[str] = "", sort: str = "", limit: int = 0) -> pandas.DataFrame:
    """The results (valid or not) as a pandas frame, a column per field; figures are float64, NaN = none."""
    import pandas

    found = rows(db, query, sort, limit, unfinished=False)
    columns = fields.columns_of(found)
    table = pandas.DataFrame(found, columns=[f.name for f in columns])
    for f in columns:
        if f.kind == "number":
            table[f.name] = pandas.to_numeric(table[f.name])
        elif f.kind == "time":
            table[f.name] = pandas.to_datetime(table[f.name], utc=True)
    return table


def export(db: PerfDB, path: Path, query: str | Iterable[str] = "", sort: str = "", limit: int = 0) -> int:
    """Write the results to a file, in the format of its ending; how many there were.

    CSV and Parquet have a column per field, JSON the whole documents. The file appears when complete. A text that a
    spreadsheet would run has a quote before it in CSV, as over REST.
    """
    kind = path.suffix.lstrip(".").lower()
    if kind not in EXPORTS:
        raise InputError(
            f"{path.name}: the ending says the format; allowed: {', '.join('.' + e for e in EXPORTS)}"
        )
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        count = _write(db, temporary, kind, query, sort, limit)
        os.replace(temporary, path)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _write(db: PerfDB, path: Path, kind: str, query: str | Iterable[str], sort: str, limit: int) -> int:
    if kind == "json":
        filter, order = parse(query).filter, parse_sort(sort)
        found = in_order.page(in_order.parts(db, db.find_results, filter, order), limit, 0) if order else None
        documents = db.find_results(filter, limit=limit) if found is None else found
        with open(path, "w", encoding="utf-8") as file:
            json.dump([d.model_dump(mode="json") for d in documents], file, indent=1, allow_nan=False)
        return len(documents)
    table = frame(db, query, sort, limit)
    if kind == "csv":
        harmless_table(table).to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False, compression="zstd")
    return len(table)
