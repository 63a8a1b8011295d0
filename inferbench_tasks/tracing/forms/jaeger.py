"""Jaeger's JSON, which its page opens as a file: a list of traces, each with its spans.

Its times are whole microseconds (``model.json`` of jaeger-idl); the exact ones are tags of the span.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

from inferbench_tasks.tracing.forms.otlp_json import attributes_of, by_service, failure_of, links_of
from inferbench_tasks.tracing.forms.values import Kind, typed
from inferbench_tasks.tracing.spans import Span, spans_of

_TYPES: dict[Kind, str] = {"bool": "bool", "int": "int64", "double": "float64", "string": "string"}


def content(table: pa.Table, about: dict[str, str]) -> bytes:
    """The file; ``about``: tags of its process."""
    traces: dict[str, list[Span]] = defaultdict(list)
    for span in spans_of(table):
        traces[span.trace_id].append(span)
    return orjson.dumps({"data": [_trace(trace, own, about) for trace, own in traces.items()]})


def _trace(trace_id: str, spans: Sequence[Span], about: dict[str, str]) -> dict[str, Any]:
    ids = {span.number: span.span_id for span in spans}
    processes: dict[str, Any] = {}
    process_of: dict[int, str] = {}
    for place, (attributes, own) in enumerate(by_service(spans, about), 1):
        tags = [_tag(key, value) for key, value in attributes.items() if key != "service.name"]
        processes[f"p{place}"] = {"serviceName": attributes["service.name"], "tags": tags}
        process_of |= {span.number: f"p{place}" for span in own}
    rows = [_span(span, ids, process_of[span.number]) for span in spans]
    return {"traceID": trace_id, "spans": rows, "processes": processes, "warnings": None}


def _span(span: Span, ids: dict[int, str], process: str) -> dict[str, Any]:
    parent = {"refType": "CHILD_OF", "traceID": span.trace_id, "spanID": ids.get(span.parent)}
    links = [
        {"refType": "FOLLOWS_FROM", "traceID": trace, "spanID": other} for trace, other in links_of(span)
    ]
    exact: dict[str, Any] = {"start_ns": span.start_ns, "duration_ns": span.duration_ns}
    if (failure := failure_of(span)) is not None:
        exact |= {"error": True, **({"otel.status_description": failure} if failure else {})}
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "flags": 1,
        "operationName": span.name,
        "references": [*([parent] if span.parent >= 0 else []), *links],
        "startTime": span.start_ns // 1000,
        "duration": span.duration_ns // 1000,
        "tags": [_tag(name, value) for name, value in {**attributes_of(span), **exact}.items()],
        "logs": [],
        "processID": process,
        "warnings": None,
    }


def _tag(name: str, value: Any) -> dict[str, Any]:
    kind, given = typed(value)
    return {"key": name, "type": _TYPES[kind], "value": given}
