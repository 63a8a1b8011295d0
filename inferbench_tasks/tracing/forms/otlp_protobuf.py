"""OTLP as protobuf: one ``ExportTraceServiceRequest``, as a collector's HTTP takes it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from inferbench_tasks.errors import InputError
from inferbench_tasks.protocols import otlp_proto
from inferbench_tasks.tracing.foreign.otlp import ERROR
from inferbench_tasks.tracing.forms.otlp_json import (
    attributes_of,
    by_service,
    failure_of,
    kind_of,
    links_of,
    state_of,
)
from inferbench_tasks.tracing.forms.values import typed
from inferbench_tasks.tracing.spans import Span, spans_of


class Batch(NamedTuple):
    """``content``: one ``ExportTraceServiceRequest``. ``spans``: how many are in it."""

    content: bytes
    spans: int


def content(table: pa.Table, about: dict[str, str]) -> bytes:
    """The file; ``about``: attributes of its resource. InputError for times of before 1970."""
    # Messages one behind the other are one message with the lists of all (protobuf, "Last One Wins").
    return b"".join(batch.content for batch in batches(table, about))


def batches(
    table: pa.Table,
    about: dict[str, str],
    most_spans: int = sys.maxsize,
    most_bytes: int = sys.maxsize,
) -> Iterator[Batch]:
    """All spans in requests of so many at most, of one service each; ``about`` as of ``content``.

    ``most_bytes``: of a request's spans; one that is larger is in a request by itself. InputError for times of before
    1970, before the first request.
    """
    spans = list(spans_of(table))
    ids = _ids(spans)
    for attributes, own in by_service(spans, about):
        resource = otlp_proto.message("Resource")(attributes=_values(attributes)).SerializeToString()
        part: list[bytes] = []
        size = 0
        for span in own:
            written = _field(otlp_proto.SPANS, _span(span, ids))
            if part and (len(part) >= most_spans or size + len(written) > most_bytes):
                yield _batch(resource, part)
                part, size = [], 0
            part.append(written)
            size += len(written)
        yield _batch(resource, part)


def _batch(resource: bytes, spans: Sequence[bytes]) -> Batch:
    scope = otlp_proto.message("Scope")(name="inferbench").SerializeToString()
    of_scope = _field(otlp_proto.SCOPE, scope) + b"".join(spans)
    of_resource = _field(otlp_proto.RESOURCE, resource) + _field(otlp_proto.SCOPE_SPANS, of_scope)
    return Batch(_field(otlp_proto.RESOURCE_SPANS, of_resource), len(spans))


def _ids(spans: Iterable[Span]) -> dict[tuple[str, int], bytes]:
    ids = {}
    for span in spans:
        if min(span.start_ns, span.end_ns) < 0:
            raise InputError(
                f"{span.name!r}, span {span.number}, is of before 1970, for which OTLP has no number"
            )
        ids[span.trace_id, span.number] = bytes.fromhex(span.span_id)
    return ids


def _span(span: Span, ids: dict[tuple[str, int], bytes]) -> bytes:
    made = otlp_proto.message("Span")(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=ids[span.trace_id, span.number],
        trace_state=state_of(span),
        parent_span_id=ids[span.trace_id, span.parent] if span.parent >= 0 else b"",
        name=span.name,
        kind=kind_of(span),
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=_values(attributes_of(span)),
        links=_links(span),
    )
    if (failure := failure_of(span)) is not None:
        made.status.code = ERROR
        made.status.message = failure
    return bytes(made.SerializeToString())


def _links(span: Span) -> list[Any]:
    link = otlp_proto.message("Link")
    return [
        link(trace_id=bytes.fromhex(trace), span_id=bytes.fromhex(other)) for trace, other in links_of(span)
    ]


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
