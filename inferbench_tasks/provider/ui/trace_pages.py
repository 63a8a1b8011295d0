"""The pages of traces: the list, one with its pictures, two side by side, one in Perfetto."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.stack.document import compared, labelled
from inferbench_tasks.analysis.stack.stored import subject_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.pipelines.traces import ORIGINS, Origin, StoredTrace, find_trace, listed
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.parameters import OF_A_TRACE, TICKED
from inferbench_tasks.provider.api.problems import not_found
from inferbench_tasks.provider.ui import perfetto
from inferbench_tasks.provider.ui.render import page, query
from inferbench_tasks.provider.ui.run_page import airflow_path
from inferbench_tasks.tracing.batches import batch_in_words, traced_batch_size
from inferbench_tasks.tracing.export import FORMS
from inferbench_tasks.tracing.missing import missing_in_words
from inferbench_tasks.tracing.share import doubts_in_words, share_in_words
from inferbench_tasks.tracing.spans import SPAN_LEVELS, Span
from inferbench_tasks.tracing.stored import PREFIX

router = APIRouter(include_in_schema=False)
#: What a trace of each origin is of.
NOUNS: dict[Origin, str] = {"run": "request", "training": "step", "imported": "trace"}


@router.get("/traces", response_class=HTMLResponse, dependencies=[TICKED])
def list_traces(
    db: Store,
    origin: Origin | Literal[""] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    offset: Annotated[int, Query(ge=0, le=10_000)] = 0,
) -> HTMLResponse:
    """All traces, the newest first."""
    rows = listed(db, limit + 1, offset, origin or None)
    asked = {"origin": origin, "limit": limit}
    before = query(**asked, offset=max(0, offset - limit) or None)
    return page(
        "traces.html",
        here="traces",
        rows=rows[:limit],
        origin=origin,
        origins=ORIGINS,
        limit=limit,
        previous=before if offset else None,
        next=query(**asked, offset=offset + limit) if len(rows) > limit else None,
    )


@router.get("/traces/compare", response_class=HTMLResponse)
def compare(db: Store, run: Annotated[list[str], Query()] = []) -> HTMLResponse:  # noqa: B006
    """Two traces side by side; of two traced runs what makes the difference, too."""
    names = [text.strip() for text in run if text.strip()]
    problem: str | None = None
    sides: list[dict[str, Any]] = []
    difference, none_because = None, None
    if names:
        try:
            if len(names) != 2:
                raise InputError(f"two traces are set side by side, not {len(names)}")
            traces = [find_trace(db, name) for name in names]
            sides = [_side(trace) for trace in traces]
            difference, none_because = _difference(db, traces)
        except InputError as error:
            problem = str(error)
    return page(
        "compare_traces.html",
        here="traces",
        slots=[*names, "", ""][:2],
        sides=sides,
        difference=difference,
        no_difference=none_because,
        problem=problem,
        csv="/inferbench/api/traces/compare" + query(run=[side["id"] for side in sides], format="csv"),
    )


@router.get("/trace/{run}", response_class=HTMLResponse, dependencies=[OF_A_TRACE])
def trace_page(run: str, db: Store) -> HTMLResponse:
    """Timeline, flame graph, search; of a run without spans why it has none. 404 for what was never traced."""
    try:
        shown = _of(find_trace(db, run))
    except InputError as error:
        shown = _without_spans(db, run, str(error))
    return page("trace.html", here="traces", forms=FORMS, **vars(shown))


@router.get("/trace/{run}/perfetto", response_class=HTMLResponse)
def in_perfetto(run: str, db: Store) -> HTMLResponse:
    """The trace in Perfetto's own page."""
    try:
        trace = find_trace(db, run)
    except InputError as error:
        raise not_found(str(error)) from error
    return page(
        "perfetto.html",
        here="traces",
        id=trace.id,
        name=_name(trace),
        missing=perfetto.remedy(),
        spans=f"{trace.whole().num_rows:,}",
    )


@dataclass
class _Shown:
    """What the page of a trace shows; ``drawn``: whether it has spans."""

    id: str
    name: str
    noun: str = "request"
    verdict: str = ""
    note: str = ""
    problem: str = ""
    ways: dict[str, str] = field(default_factory=dict)
    tiles: dict[str, Any] = field(default_factory=dict)
    levels: list[str] = field(default_factory=list)
    overheads: list[dict[str, Any]] = field(default_factory=list)
    counters: list[dict[str, Any]] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    drawn: bool = True


def _of(trace: StoredTrace) -> _Shown:
    there = set(trace.table()["level"].unique().to_pylist())
    shown = _Shown(trace.id, _name(trace), NOUNS[trace.origin])
    shown.levels = [level for level in SPAN_LEVELS if level in there]
    if (document := trace.document) is not None:
        shown.note = f"It was {document['note']}."
        shown.findings = document["findings"]
        wrong = sum(each["count"] for each in document["findings"])
        shown.tiles = {
            "traces": document["traces"], "spans": document["spans"], "form": document["source"]["form"],
            "services": ", ".join(document["services"]) or None, "lasted, ms": document["lasted_ms"],
            "wrong with the file": wrong,
        }  # fmt: skip
    elif (result := trace.result) is not None:
        shown.verdict = str(result.verdict)
        shown.ways = {"The run": f"/inferbench/run/{trace.id}"}
        if result.model:
            shown.ways["The model"] = "/inferbench/model" + query(name=result.model.name)
            if isinstance(result, ResultDocument) and result.extensions["trace"].get("layers"):
                shown.ways["Its stacks"] = "/inferbench/stack" + query(model=result.model.name)
        if in_airflow := airflow_path(result.invocation_id):
            shown.ways["In Airflow"] = in_airflow
        if isinstance(result, ResultDocument):
            _tell_of_run(shown, result)
            shown.stages = _stages(trace.stages())
    return shown


def _stages(spans: list[Span]) -> list[dict[str, Any]]:
    """A row for the invocation and for each stage of the run."""
    return [
        {
            "name": span.name,
            "host": span.attributes.get("host"),
            "state": span.attributes["state"],
            "after_s": (span.start_ns - spans[0].start_ns) / 1e9,
            "takes_s": span.duration_ns / 1e9,
        }
        for span in spans
    ]


def _tell_of_run(shown: _Shown, result: ResultDocument) -> None:
    told = result.extensions["trace"]
    layers = told.get("layers") or {}
    named = {
        "requests": told.get("requests"),
        "samples in each": traced_batch_size(result) if told.get("requests") else None,
        "spans": told.get("spans"),
        "defects": told.get("defects"),
        "a run of the runtime, ms": layers.get("framework_ms"),
        "its layers' sum by it": layers.get("explained_ratio"),
    }
    shown.tiles = {title: value for title, value in named.items() if value is not None}
    shown.overheads = told.get("overheads") or []
    shown.counters = told.get("counters") or []
    words = [batch_in_words(result), doubts_in_words(told), missing_in_words(told)]
    if share := share_in_words(told):
        shown.tiles["requests"] = f"{told['requests']:,} of {told['of']:,}"
        words.insert(0, f"{share}.")
    shown.note = " ".join(filter(None, words))


def _without_spans(db: PerfDB, run: str, problem: str) -> _Shown:
    """A run whose trace failed or was deleted is there, and says so."""
    try:
        if run.startswith(PREFIX):
            raise InputError(problem)
        result = db.get_result(db.resolve_run(run))
        told = result.extensions.get("trace")
        if told is None:
            raise InputError(problem)
    except InputError as error:
        raise not_found(problem) from error
    shown = _Shown(result.run_id, result.run_id, verdict=str(result.verdict), problem=problem, drawn=False)
    shown.ways = {"The run": f"/inferbench/run/{result.run_id}"}
    _tell_of_run(shown, result)
    return shown


def _name(trace: StoredTrace) -> str:
    return str(trace.document["name"]) if trace.document else trace.id


def _side(trace: StoredTrace) -> dict[str, Any]:
    about = trace.about.get("inferbench.note") or f"verdict: {trace.about['inferbench.verdict']}"
    return {"id": trace.id, "name": _name(trace), "noun": NOUNS[trace.origin], "about": about}


def _difference(db: PerfDB, traces: list[StoredTrace]) -> tuple[dict[str, Any] | None, str | None]:
    """What makes it, or why that can't be said."""
    runs = [trace.result for trace in traces if isinstance(trace.result, ResultDocument)]
    if len(runs) < len(traces):
        return None, "only traced runs of models are compared layer by layer"
    try:
        return compared(*labelled([subject_of(db, run, batches=False) for run in runs])), None
    except InputError as error:
        return None, str(error)
