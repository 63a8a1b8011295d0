"""OTLP as protobuf: one ``ExportTraceServiceRequest``, as a collector's HTTP takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from inferbench_tasks.errors import InputError
from inferbench_tasks.protocols import otlp_proto
from inferbench_tasks.tracing.foreign.otlp import ERROR
from inferbench_tasks.tracing.forms.otlp_json import attributes_of, by_service, failure_of, kind_of
from inferbench_tasks.tracing.forms.values import typed
from inferbench_tasks.tracing.spans import Span, spans_of


def content(table: pa.Table, about: dict[str, str]) -> bytes:
    """The file; ``about``: attributes of its resource. InputError for times of before 1970."""
    spans = list(spans_of(table))
    ids = {(span.trace_id, span.number): bytes.fromhex(span.span_id) for span in spans}
    scope = otlp_proto.message("Scope")(name="inferbench")
    written = b""
    for attributes, own in by_service(spans, about):
        of_scope = _field(otlp_proto.SCOPE, scope.SerializeToString())
        of_scope += b"".join(_field(otlp_proto.SPANS, _span(span, ids)) for span in own)
        resource = otlp_proto.message("Resource")(attributes=_values(attributes))
        of_resource = _field(otlp_proto.RESOURCE, resource.SerializeToString())
        of_resource += _field(otlp_proto.SCOPE_SPANS, of_scope)
        written += _field(otlp_proto.RESOURCE_SPANS, of_resource)
    return written


def _span(span: Span, ids: dict[tuple[str, int], bytes]) -> bytes:
    if min(span.start_ns, span.end_ns) < 0:
        raise InputError(
            f"{span.name!r}, span {span.number}, is of before 1970, for which OTLP has no number"
        )
    made = otlp_proto.message("Span")(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=ids[span.trace_id, span.number],
        parent_span_id=ids[span.trace_id, span.parent] if span.parent >= 0 else b"",
        name=span.name,
        kind=kind_of(span),
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=_values(attributes_of(span)),
    )
    if (failure := failure_of(span)) is not None:
        made.status.code = ERROR
        made.status.message = failure
    return bytes(made.SerializeToString())


def _values(values: dict[str, Any]) -> Iterable[Any]:
    pair, any_value = otlp_proto.message("KeyValue"), otlp_proto.message("AnyValue")
    return [pair(key=name, value=any_value(**_one_of(value))) for name, value in values.items()]


def _one_of(value: Any) -> dict[str, Any]:
    kind, given = typed(value)
    return {f"{kind}_value": given}


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes with its length in front, as protobuf writes messages within others."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
