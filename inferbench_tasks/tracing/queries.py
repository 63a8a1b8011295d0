"""What commands and the REST API ask of stored traces."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.tracing.spans import spans_of


def trace_of(result: ResultDocument) -> dict[str, Any]:
    """What was traced; InputError for a run that was not."""
    trace: dict[str, Any] | None = result.extensions.get("trace")
    if trace is None:
        raise InputError(
            f"{result.run_id} was not traced; its submission has no block `trace: {{}}`", field="RUN"
        )
    if "problem" in trace:
        raise InputError(f"{result.run_id} has no trace: {trace['problem']}", field="RUN")
    return trace


def row_of(result: ResultDocument) -> dict[str, Any]:
    """A line of a list of traced runs."""
    trace = result.extensions["trace"]
    found = trace.get("layers") or {}
    problem = trace.get("problem", "").splitlines()
    return {
        "run": result.run_id,
        "model": result.model.name,
        "backend": result.backend.kind,
        "requests": trace.get("requests"),
        "spans": trace.get("spans"),
        "levels": ", ".join(trace.get("levels", [])),
        "defects": trace.get("defects"),
        "framework_ms": found.get("framework_ms"),
        "explained_ratio": found.get("explained_ratio"),
        "problem": problem[0] if problem else "",
    }


def spans_like(
    table: pa.Table, level: str | None, name: str, limit: int, offset: int
) -> list[dict[str, Any]]:
    """Spans of a stored table by level and part of their name, in their order."""
    if level is not None:
        table = table.filter(pc.equal(table["level"].cast(pa.string()), level))
    if name:
        table = table.filter(pc.match_substring(table["name"].cast(pa.string()), name))
    return [
        {
            "trace_id": span.trace_id,
            "span": span.number,
            "parent": span.parent,
            "span_id": span.span_id,
            "level": span.level,
            "name": span.name,
            "type": span.type,
            "start_ns": span.start_ns,
            "duration_ns": span.duration_ns,
            "attributes": span.attributes,
        }
        for span in spans_of(table.slice(offset, limit))
    ]
