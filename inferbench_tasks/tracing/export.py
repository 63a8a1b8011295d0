"""Spans for other tools: Chrome's trace format (Perfetto, chrome://tracing), OTLP as JSON, Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.foreign.otlp import KINDS
from inferbench_tasks.tracing.lanes import lanes_of
from inferbench_tasks.tracing.spans import LEVELS, SCHEMA, Span, spans_of

#: File name's end -> what is written.
FORMS = {".json": "Chrome's trace format, for Perfetto", ".otlp.json": "OTLP as JSON", ".parquet": "Parquet"}
_KINDS = {name: number for number, name in KINDS.items()}
#: OTLP's kinds: who is asked, who asks, what happens inside.
_SERVER, _CLIENT, _INTERNAL = 2, 3, 1


def write(table: pa.Table, path: Path, about: dict[str, str]) -> int:
    """Write the spans of a stored table; how many. InputError for another ending. The file is whole or not at all."""
    name = path.name.lower()
    if name.endswith(".otlp.json"):
        content = orjson.dumps(otlp(list(spans_of(table)), about))
    elif name.endswith(".json"):
        events = list(chrome_events(list(spans_of(table))))
        content = orjson.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})
    elif name.endswith(".parquet"):
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        pq.write_table(table.cast(SCHEMA), sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
    else:
        known = ", ".join(f"{ending} ({form})" for ending, form in FORMS.items())
        raise InputError(f"{path}: its ending says what is written; known: {known}", field="FILE")
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
    return int(table.num_rows)


def chrome_events(spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    """Complete events, a row for each level, times in microseconds from the first span on.

    See "Trace Event Format", Google. Requests were asked one after the other, so that no two spans of a row overlap but
    for those that lie within each other.
    """
    first_ns = min((span.start_ns for span in spans), default=0)
    rows: dict[str, int] = {level: row for row, level in enumerate(LEVELS)}
    # Other tools' spans may overlap as they like.
    lanes = lanes_of([span for span in spans if span.level == "foreign"], len(rows))
    rows |= {f"foreign {lane}": lane for lane in sorted(set(lanes.values()))}
    for level, row in rows.items():
        yield {"ph": "M", "pid": 1, "tid": row, "name": "thread_name", "args": {"name": level}}
        yield {"ph": "M", "pid": 1, "tid": row, "name": "thread_sort_index", "args": {"sort_index": row}}
    for span in spans:
        yield {
            "ph": "X",
            "pid": 1,
            "tid": lanes[span.trace_id, span.number] if span.level == "foreign" else rows[span.level],
            "name": span.name,
            "cat": span.type or span.level,
            "ts": (span.start_ns - first_ns) / 1e3,
            "dur": span.duration_ns / 1e3,
            "args": {"trace_id": span.trace_id, "span_id": span.span_id, **span.attributes},
        }


def otlp(spans: Sequence[Span], about: dict[str, str]) -> dict[str, Any]:
    """``ExportTraceServiceRequest`` in OTLP's JSON: ids in hexadecimal, 64-bit numbers as text.

    See OpenTelemetry protocol specification 1.9, "JSON Protobuf Encoding".
    """
    ids = {(span.trace_id, span.number): span.span_id for span in spans}
    resource = {"service.name": "inferbench", **about}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [_attribute(name, value) for name, value in resource.items()]},
                "scopeSpans": [
                    {"scope": {"name": "inferbench"}, "spans": [_otlp_span(span, ids) for span in spans]}
                ],
            }
        ]
    }


def _otlp_span(span: Span, ids: dict[tuple[str, int], str]) -> dict[str, Any]:
    kind = _CLIENT if span.parent < 0 else _SERVER if span.name == "server" else _INTERNAL
    if span.level == "foreign":
        kind = _KINDS.get(str((span.attributes.get("otlp") or {}).get("kind")), _INTERNAL)
    attributes = {"inferbench.level": span.level, **({"inferbench.type": span.type} if span.type else {})}
    attributes |= {name: value for name, value in span.attributes.items() if name != "span_id"}
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "parentSpanId": ids[span.trace_id, span.parent] if span.parent >= 0 else "",
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": [_attribute(name, value) for name, value in attributes.items()],
    }


def _attribute(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"key": name, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": name, "value": {"intValue": str(value)}}
    if isinstance(value, float):
        return {"key": name, "value": {"doubleValue": value}}
    return {
        "key": name,
        "value": {"stringValue": value if isinstance(value, str) else orjson.dumps(value).decode()},
    }
