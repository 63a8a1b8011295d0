"""Traced runs over REST: what was traced, spans, analyses across the stack, and what makes the difference."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.analysis.stack.document import analysed, compared, labelled, stacks
from inferbench_tasks.analysis.stack.stored import newest, subject_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table
from inferbench_tasks.provider.api.problems import blame, not_found
from inferbench_tasks.provider.api.runs import Limit, Offset
from inferbench_tasks.tracing.export import write
from inferbench_tasks.tracing.queries import spans_file, spans_like
from inferbench_tasks.tracing.stored import traced_runs
from inferbench_tasks.training import step_spans

router = APIRouter(tags=["traces"])
Level = Literal["application", "model", "framework", "layer"]
#: ``format`` -> the ending that ``tracing.export`` writes, and its media type.
_FORMS = {
    "perfetto": (".json", "application/json"),
    "otlp": (".otlp.json", "application/json"),
    "parquet": (".parquet", "application/vnd.apache.parquet"),
}
By = Literal["stack", "version", "system"]


@router.get("/traces", summary="Traced runs, a page at a time")
def list_traces(
    request: Request, db: Store, limit: Limit = 50, offset: Offset = 0, format: Format = None
) -> Response:
    """``items``, the newest first: spans, levels, defects, or why there is no trace; ``next_offset`` leads on."""
    found = traced_runs(db, limit + 1, offset)
    rows = found[:limit]
    body = {"items": plain(rows), "next_offset": offset + limit if len(found) > limit else None}
    return table(request, format, rows, body, name="traces")


@router.get("/traces/compare", summary="What makes the difference between two traced runs")
def compare(
    request: Request, db: Store, run: Annotated[list[str], Query(max_length=2)], format: Format = None
) -> Response:
    """Layers of both by sequence, kind and shape; ``rows`` add up to ``difference_ms`` of a run of the runtime."""
    with blame("run"):
        if len(run) != 2:
            raise InputError(f"two runs are compared, not {len(run)}")
        left, right = labelled([subject_of(db, _result(db, each), batches=False) for each in run])
        document = compared(left, right)
    return table(request, format, plain(document["rows"]), plain(document), name="difference")


@router.get("/traces/{run}", summary="One traced run: its analyses, or its spans for another tool")
def one_trace(
    run: str,
    request: Request,
    db: Store,
    format: Annotated[Literal["perfetto", "otlp", "parquet"] | None, Query(description="Its spans.")] = None,
) -> Response:
    """Without ``format`` the trace and XSP's analyses: each with table, formula and sentence, or what is missing."""
    result = _result(db, run)
    try:
        if format is None:
            document = {"trace": result.extensions.get("trace"), **analysed(subject_of(db, result))}
            return table(request, "json", [], plain(document))
        spans = stored_table(db, spans_file(result))
    except InputError as error:
        raise not_found(str(error)) from error
    ending, media_type = _FORMS[format]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"spans{ending}"
        write(spans, path, {"inferbench.run": result.run_id, "inferbench.verdict": str(result.verdict)})
        content = path.read_bytes()
    headers = {"Content-Disposition": f'attachment; filename="trace{ending}"'}
    return Response(content, media_type=media_type, headers=headers)


@router.get("/traces/{run}/spans", summary="Spans of a traced run, by level and name")
def spans(
    run: str,
    request: Request,
    db: Store,
    level: Level | None = None,
    name: Annotated[str, Query(max_length=300, description="Part of the span's name.")] = "",
    limit: Limit = 50,
    offset: Offset = 0,
    format: Format = None,
) -> Response:
    """``items`` in their order, and ``next_offset``; times in Unix ns. Of a training the steps of its ranks."""
    try:
        training = step_spans.find(db, run)
        stored = (
            step_spans.table(db, training) if training else stored_table(db, spans_file(_result(db, run)))
        )
    except InputError as error:
        raise not_found(str(error)) from error
    rows = spans_like(stored, level, name, limit + 1, offset)
    body: dict[str, Any] = {
        "items": rows[:limit],
        "next_offset": offset + limit if len(rows) > limit else None,
    }
    return table(request, format, rows[:limit], body, name="spans")


@router.get("/stack", summary="Models across stacks, versions or systems, layer by layer")
def stack(
    request: Request, db: Store, model: Annotated[list[str], Query(max_length=20)], by: By = "stack"
) -> Response:
    """``stacks``: the newest traced run of each; ``comparisons``: each with the fastest of its model."""
    with blame("model"):
        document = stacks(labelled(newest(db, model, by)))
    return table(request, "json", [], plain(document))


def _result(db: PerfDB, run: str) -> ResultDocument:
    try:
        return db.get_result(db.resolve_run(run))
    except InputError as error:
        raise not_found(str(error)) from error
