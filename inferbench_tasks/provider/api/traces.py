"""Traced runs over REST: what was traced, spans, analyses of one, and what makes the difference."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.analysis.stack.document import analysed, compared, labelled
from inferbench_tasks.analysis.stack.stored import subject_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.traces import StoredTrace, find_trace, listed
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table
from inferbench_tasks.provider.api.problems import blame, not_found
from inferbench_tasks.provider.api.runs import Limit, Offset, following
from inferbench_tasks.tracing.columns import columns_of
from inferbench_tasks.tracing.export import FORMS
from inferbench_tasks.tracing.flame import flame_graph
from inferbench_tasks.tracing.profiled import OneLevel, asks_for_library, one_level
from inferbench_tasks.tracing.queries import spans_like
from inferbench_tasks.tracing.share import share_in_words
from inferbench_tasks.tracing.spans import MEASURED, AnyLevel, Part
from inferbench_tasks.tracing.stored import find_imported
from inferbench_tasks.tracing.timeline import timeline as drawn

router = APIRouter(tags=["traces"])
#: Names of ``tracing.export.FORMS``.
Form = Literal["perfetto", "otlp", "otlp_protobuf", "jaeger", "parquet"]
Deepest = Annotated[
    Literal["layer", "library"],
    Query(description="library: the requests with that level's instruments, in place of those without."),
]
Trace = Annotated[str, Query(max_length=64, description="One request's, by its trace id; all if empty.")]


@router.get("/traces", summary="Traced runs, trainings and imported traces, a page at a time")
def list_traces(
    request: Request, db: Store, limit: Limit = 50, offset: Offset = 0, format: Format = None
) -> Response:
    """``items``, the newest first, ``origin`` says what each is: spans, levels, defects, or why there is no trace;
    ``next_offset`` leads on; ``truncated``: there are more that no offset reaches.
    """
    found = listed(db, limit + 1, offset)
    rows = found[:limit]
    body = {"items": plain(rows), **following(offset, limit, len(found) > limit)}
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


@router.get("/traces/{run}", summary="One trace: its analyses, or its spans for another tool")
def one_trace(
    run: str,
    request: Request,
    db: Store,
    format: Annotated[Form | None, Query(description="Its spans.")] = None,
) -> Response:
    """Without ``format`` a traced run's trace and XSP's analyses: each with table, formula and sentence, or what is
    missing; of a share of a load which share, and the parts of its requests; of an imported trace what its file told,
    and that it is not measured by InferBench.
    """
    if format is None:
        return table(request, "json", [], plain(_document(db, run)))
    trace = _found(db, run)
    form = FORMS[format]
    with blame("format"):
        content = form.content(trace.whole(), trace.about)
    headers = {"Content-Disposition": f'attachment; filename="trace{form.ending}"'}
    return Response(content, media_type=form.media_type, headers=headers)


@router.get("/traces/{run}/spans", summary="Spans of a trace, by level and name")
def spans(
    run: str,
    request: Request,
    db: Store,
    level: AnyLevel | None = None,
    name: Annotated[str, Query(max_length=300, description="Part of the span's name.")] = "",
    trace: Trace = "",
    span: Annotated[int | None, Query(ge=0, le=2**31 - 1, description="Its number in its request.")] = None,
    limit: Limit = 50,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    format: Format = None,
) -> Response:
    """``items`` in their order, ``total``, ``next_offset``; times in Unix ns. Of a training the steps of its ranks."""
    rows, total = spans_like(_found(db, run).table(), level, name, limit, offset, trace, span)
    following = offset + limit if total > offset + limit else None
    body = {"items": rows, "total": total, "next_offset": following}
    return table(request, format, rows, body, name="spans")


@router.get(
    "/traces/{run}/flamegraph", summary="A trace's flame graph: spans with the same way down, added up"
)
def flamegraph(
    run: str,
    request: Request,
    db: Store,
    level: Annotated[
        list[AnyLevel], Query(max_length=20, description="Of these alone; of all if none.")
    ] = [],  # noqa: B006
    trace: Trace = "",
    part: Annotated[
        Part,
        Query(description="Of a training: of its measured steps, its warm-up, or its last, smaller ones."),
    ] = MEASURED,
    format: Format = None,
) -> Response:
    """``frames``, outer ones first: ``parent`` (place of the one around it, else -1), spans, total and own ns.
    ``apart`` says how many requests are of other parts than ``part``.

    What a GPU did is in it only where ``level`` is ``hardware`` alone; else ``beside`` says how many spans it is.
    Requests with the instruments of the library level are added up only with each other, and only if it or
    ``hardware`` is among ``level``: ``instrumented`` says which these are, ``others`` how many spans are of other
    requests. One request, by ``trace``, is there with whichever instruments it was asked.
    """
    alike = one_level(_found(db, run).table(), asks_for_library(level), trace)
    found = flame_graph(columns_of(alike.table), level or None, trace, part) | _instruments(alike)
    return table(request, format, found["frames"], found, name="flamegraph")


@router.get("/traces/{run}/timeline", summary="A trace's spans as columns, to be drawn")
def timeline(run: str, db: Store, level: Deepest = "layer", trace: Trace = "") -> Response:
    """At most 200,000 spans, of whole requests; ``left_out`` says how many more there are. ``instrumented`` says with
    which instruments these requests were asked, ``others`` how many spans are of requests with other ones.
    """
    alike = one_level(_found(db, run).table(), level == "library", trace)
    found = drawn(columns_of(alike.table), trace) | _instruments(alike)
    content = orjson.dumps(found, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(content, media_type="application/json")


def _instruments(alike: OneLevel) -> dict[str, Any]:
    return {"instrumented": alike.instrumented, "others": alike.others}


def _document(db: PerfDB, run: str) -> dict[str, Any]:
    try:
        if (kept := find_imported(db, run)) is not None:
            return {"trace": {name: value for name, value in kept.items() if name != "file"}}
        result = db.get_result(db.resolve_run(run))
        trace = result.extensions.get("trace") or {}
        if (share := share_in_words(trace)) is not None:  # which has no layers, and nothing to analyse
            return {"trace": trace, "run": result.run_id, "traced": share}
        return {"trace": result.extensions.get("trace"), **analysed(subject_of(db, result))}
    except InputError as error:
        raise not_found(str(error)) from error


def _found(db: PerfDB, run: str) -> StoredTrace:
    try:
        return find_trace(db, run)
    except InputError as error:
        raise not_found(str(error)) from error


def _result(db: PerfDB, run: str) -> ResultDocument:
    try:
        return db.get_result(db.resolve_run(run))
    except InputError as error:
        raise not_found(str(error)) from error
