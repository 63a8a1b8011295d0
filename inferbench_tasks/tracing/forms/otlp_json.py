"""OTLP as JSON, as a collector's HTTP and its file exporter have it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from inferbench_tasks.tracing.foreign.otlp import ERROR, KINDS
from inferbench_tasks.tracing.forms.values import typed
from inferbench_tasks.tracing.request_parts import ASKING
from inferbench_tasks.tracing.spans import LINKS, STATE, Span, spans_of

_KINDS = {name: number for number, name in KINDS.items()}
#: OTLP's kinds: who is asked, who asks, what happens inside.
_SERVER, _CLIENT, _INTERNAL = 2, 3, 1


def content(table: pa.Table, about: dict[str, str]) -> bytes:
    """The file; ``about``: attributes of its resource."""
    return orjson.dumps(otlp(list(spans_of(table)), about))


def otlp(spans: Sequence[Span], about: dict[str, str]) -> dict[str, Any]:
    """``ExportTraceServiceRequest`` in OTLP's JSON: ids in hexadecimal, 64-bit numbers as text.

    See OpenTelemetry protocol specification 1.9, "JSON Protobuf Encoding".
    """
    ids = {(span.trace_id, span.number): span.span_id for span in spans}
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": [_attribute(name, value) for name, value in resource.items()]},
                "scopeSpans": [
                    {"scope": {"name": "inferbench"}, "spans": [_otlp_span(span, ids) for span in own]}
                ],
            }
            for resource, own in by_service(spans, about)
        ]
    }


def by_service(
    spans: Sequence[Span], about: Mapping[str, str]
) -> Iterator[tuple[dict[str, str], list[Span]]]:
    """The attributes of each service, and its spans: of another tool's trace those that its file told, else ours."""
    groups: dict[str, list[Span]] = defaultdict(list)
    ours = about.get("service.name", "inferbench")
    for span in spans:
        groups[str(_told(span).get("service") or ours)].append(span)
    for name, own in (groups or {ours: []}).items():
        yield {**about, "service.name": name}, own


def failure_of(span: Span) -> str | None:
    """What an imported span that failed says of it, perhaps nothing; None of one that did not fail."""
    told = _told(span)
    return str(told.get("message", "")) if told.get("status") == "error" else None


def _told(span: Span) -> Mapping[str, Any]:
    """What an OTLP file said of a span besides its attributes (``foreign.otlp``)."""
    told = span.attributes.get("otlp")
    return told if isinstance(told, dict) else {}


def kind_of(span: Span) -> int:
    """OTLP's number of a span's kind; another tool's keeps what it was."""
    if span.level == "foreign" or "kind" in _told(span):
        return _KINDS.get(str(_told(span).get("kind")), _INTERNAL)
    if span.level == "application" and span.name in ASKING and "span_id" in span.attributes:
        return _CLIENT
    return _SERVER if span.name == "server" else _INTERNAL


def attributes_of(span: Span) -> dict[str, Any]:
    """What a span has of attributes, with its level and type, which OTLP has no field for."""
    ours = {"inferbench.level": span.level, **({"inferbench.type": span.type} if span.type else {})}
    fields = (
        ("span_id", STATE) if span.level == "foreign" else ("span_id", STATE, LINKS)
    )  # that OTLP has itself
    return ours | {name: value for name, value in span.attributes.items() if name not in fields}


def links_of(span: Span) -> list[tuple[str, str]]:
    """Trace and span of each that it is linked with; other tools' links are counted alone."""
    if span.level == "foreign":
        return []
    return [(link["trace_id"], link["span_id"]) for link in span.attributes.get(LINKS, ())]


def state_of(span: Span) -> str:
    """Its ``tracestate``, which OTLP has a field for; of an imported span that of its file."""
    return str(span.attributes.get(STATE) or _told(span).get(STATE) or "")


def _otlp_span(span: Span, ids: dict[tuple[str, int], str]) -> dict[str, Any]:
    failure = failure_of(span)
    links = [{"traceId": trace, "spanId": other} for trace, other in links_of(span)]
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **({"traceState": state} if (state := state_of(span)) else {}),
        "parentSpanId": ids[span.trace_id, span.parent] if span.parent >= 0 else "",
        "name": span.name,
        "kind": kind_of(span),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": [_attribute(name, value) for name, value in attributes_of(span).items()],
        **({"links": links} if links else {}),
        **({} if failure is None else {"status": {"code": ERROR, "message": failure}}),
    }


def _attribute(name: str, value: Any) -> dict[str, Any]:
    kind, given = typed(value)  # 64-bit integers are text in JSON
    return {"key": name, "value": {f"{kind}Value": str(given) if kind == "int" else given}}
