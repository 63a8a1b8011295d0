"""Rows as JSON or CSV, by ``?format=`` or the Accept header."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from fastapi import Query, Request, Response
from fastapi.responses import JSONResponse

from inferbench_tasks.spreadsheet import harmless

Format = Annotated[
    Literal["json", "csv"] | None, Query(description="json or csv; by default what Accept asks for.")
]

#: Rows of an answer at most: of the CSV that a page leads to, too.
CSV_ROWS = 500
#: Types of columns that are told apart; what is missing is written as nothing.
_NUMBERS, _TEXTS = {float, int, bool, type(None)}, {str, type(None)}


def wants_csv(request: Request, format: str | None) -> bool:
    """Whether the caller asked for CSV."""
    return format == "csv" or (format is None and "text/csv" in request.headers.get("accept", ""))


def table(
    request: Request,
    format: str | None,
    rows: Sequence[dict[str, Any]],
    body: dict[str, Any] | None = None,
    *,
    name: str = "inferbench",
    columns: Sequence[str] = (),
) -> Response:
    """The rows as CSV, or ``body`` (by default ``{"items": rows}``) as JSON. ``columns``: those that any row has."""
    if not wants_csv(request, format):
        return as_json({"items": rows} if body is None else body)
    headers = {"Content-Disposition": f'attachment; filename="{name}.csv"'}
    return Response(as_csv(rows, columns), media_type="text/csv; charset=utf-8", headers=headers)


def as_json(value: Any) -> Response:
    """As ``plain`` has it."""
    try:
        return Response(orjson.dumps(value), media_type="application/json")
    except TypeError:  # keys that are no text, integers beyond 64 bits: slower
        return JSONResponse(plain(value))


def as_csv(rows: Sequence[dict[str, Any]], columns: Sequence[str] = ()) -> str:
    """A header of ``columns`` and every other key in order of first appearance, then a line per row; None is empty."""
    header = list(dict.fromkeys([*columns, *(key for row in rows for key in row)]))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow([_cell(column) for column in header])
    writer.writerows(zip(*(_cells([row.get(column) for row in rows]) for column in header), strict=True))
    return out.getvalue()


def plain(value: Any) -> Any:
    """JSON's own types: dates as ISO 8601; null for NaN and infinities, which JSON has no word for."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.isoformat() if isinstance(value, datetime) else value


def _cells(column: list[Any]) -> list[Any]:
    """A column as it is written. Most are of one type, and then have to be looked at less: a table may have tens of
    thousands of cells.
    """
    types = set(map(type, column))
    if types <= _NUMBERS and all(map(math.isfinite, filter(None, column))):
        return column
    if types <= _TEXTS:
        written = {text: _cell(text) for text in set(column)}
        return [written[text] for text in column]
    return list(map(_cell, column))


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if type(value) is list and all(type(item) is float and math.isfinite(item) for item in value):
        # An interval, as json writes it, and several times as fast.
        return f"[{', '.join(map(repr, value))}]"
    if isinstance(value, dict | list | tuple):
        value = json.dumps(plain(value))
    value = plain(value)
    return "" if value is None else harmless(value)
