"""What commands and the REST API ask of stored traces."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.tracing.batches import traced_batch_size
from inferbench_tasks.tracing.share import share_in_words
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


def about_run(result: ResultDocument) -> dict[str, str]:
    """What spans of a run say of it where they go: attributes of their resource."""
    about = {"inferbench.run": result.run_id, "inferbench.verdict": str(result.verdict)}
    share = share_in_words(result.extensions.get("trace") or {})
    size = traced_batch_size(result)
    batch = {"inferbench.batch_size": str(size)} if size is not None and size > 1 else {}
    return about | batch | ({"inferbench.traced": share} if share else {})


def spans_file(result: ResultDocument) -> dict[str, Any]:
    """Where the spans of a traced run are; InputError for a run without a trace, and where they were deleted."""
    trace = trace_of(result)
    if why := trace.get("unstored"):
        raise InputError(f"the spans of {result.run_id} were not stored: {why}", field="RUN")
    if "file" not in trace:
        when = f" on {trace['deleted_at']:%Y-%m-%d}" if trace.get("deleted_at") else ""
        raise InputError(f"the spans of {result.run_id} were deleted{when}", field="RUN")
    return dict(trace["file"])


def spans_like(
    table: pa.Table,
    level: str | None,
    name: str,
    limit: int,
    offset: int,
    trace: str = "",
    number: int | None = None,
) -> tuple[list[dict[str, Any]], int]:
    """A part of a stored table's spans by level, part of their name, trace and number in it, in their order; and how
    many there are of these.
    """
    if trace:
        table = table.filter(pc.equal(table["trace_id"].cast(pa.string()), trace))
    if number is not None:
        table = table.filter(pc.equal(table["number"], number))
    if level is not None:
        table = table.filter(pc.equal(table["level"].cast(pa.string()), level))
    if name:
        table = table.filter(pc.match_substring(table["name"].cast(pa.string()), name))
    rows = [
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
    return rows, int(table.num_rows)
