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
    writer.writerows([_cell(row.get(column)) for column in header] for row in rows)
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


def _cell(value: Any) -> Any:
    # What nearly all are, first: a table may have tens of thousands.
    if value is None:
        return ""
    if type(value) is float:
        return value if math.isfinite(value) else ""
    if type(value) is str:
        return harmless(value)
    if isinstance(value, dict | list | tuple):
        value = json.dumps(plain(value))
    value = plain(value)
    return "" if value is None else harmless(value)
