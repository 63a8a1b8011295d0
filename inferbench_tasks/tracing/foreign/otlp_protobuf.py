"""OTLP as protobuf, as a collector's HTTP and gRPC take it: lists walked over, span by span parsed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.protocols import otlp_proto
from inferbench_tasks.tracing.foreign.base import Foreign, plain, require_room
from inferbench_tasks.tracing.foreign.otlp import about_span, told

#: Fields of the lists above spans, of which a file of two bytes each would have 128 million.
_MOST_FIELDS = 4_000_000
#: So many fields tell that a file is protobuf.
_LOOKED_AT = 1000
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}


def read(content: bytes) -> Foreign:
    """The spans of an ``ExportTraceServiceRequest``, or of several one behind the other."""
    foreign = Foreign("OTLP protobuf", "unix", iter(()))
    foreign.spans = _Walk(memoryview(content), foreign).spans()
    return foreign


def is_one(content: bytes) -> bool:
    """Whether the file is made of ``ResourceSpans``; a cut one counts."""
    walk = _Walk(memoryview(content), Foreign("", "unix", iter(())))
    try:
        first = islice(walk.fields(0, len(content)), _LOOKED_AT)
        return all(number == otlp_proto.RESOURCE_SPANS for number, _, _ in first)
    except _CutOff:
        # A few bytes of JSON behind a line feed would do, too.
        return content.lstrip()[:1] not in (b"{", b"[")
    except InputError:
        return False


class _CutOff(InputError):
    """A length leads beyond the end."""


class _Walk:
    """Over one file; positions are bytes from its beginning."""

    def __init__(self, view: memoryview, foreign: Foreign) -> None:
        self._view = view
        self._foreign = foreign
        self._fields = 0
        self._place = 0

    def spans(self) -> Iterator[Any]:
        """Each span that has an end."""
        # Where a service says who it is may stand behind its spans.
        for number, start, end in self.fields(0, len(self._view)):
            if number != otlp_proto.RESOURCE_SPANS:
                continue
            service = ""
            for inner, at, to in self.fields(start, end):
                if inner == otlp_proto.RESOURCE:
                    service = _service(self._parsed("Resource", at, to))
            if service:
                self._foreign.services.add(service)
            for inner, at, to in self.fields(start, end):
                if inner == otlp_proto.SCOPE_SPANS:
                    yield from self._of_scope(at, to, service)

    def _of_scope(self, start: int, end: int, service: str) -> Iterator[Any]:
        scope = ""
        for number, at, to in self.fields(start, end):
            if number == otlp_proto.SCOPE:
                scope = self._parsed("Scope", at, to).name
        for number, at, to in self.fields(start, end):
            if number != otlp_proto.SPANS:
                continue
            self._place += 1
            require_room(self._place)
            span = self._parsed("Span", at, to)
            about = about_span(
                service, scope, span.kind, span.status.code, span.status.message, len(span.events), len(span.links),
                span.trace_state,
            )  # fmt: skip
            ids = (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex())
            attributes = {each.key: _value(each.value) for each in span.attributes}
            found = told(
                self._place, ids, span.name, span.start_time_unix_nano, span.end_time_unix_nano,
                plain(attributes), about, self._foreign.findings,
            )  # fmt: skip
            if found:
                yield found

    def fields(self, at: int, end: int) -> Iterator[tuple[int, int, int]]:
        """(number, start, end) of the fields of a message that have a length; others are skipped."""
        while at < end:
            self._fields += 1
            if self._fields > _MOST_FIELDS + 2 * self._place:
                raise InputError(f"byte {at}: more than {_MOST_FIELDS:,} fields around its spans")
            begin = at
            key, at = self._varint(at, end)
            number, wire = key >> 3, key & 7
            if not number or (wire not in _FIXED and wire not in (_VARINT, _LENGTH)):
                raise InputError(
                    f"byte {begin}: no field of protobuf; allowed are OTLP as protobuf, OTLP as JSON and Chrome's "
                    "trace format, each also packed by gzip"
                )
            if wire == _LENGTH:
                length, at = self._varint(at, end)
            elif wire == _VARINT:
                _, at = self._varint(at, end)
                length = 0
            else:
                length = _FIXED[wire]
            if at + length > end:
                raise _CutOff(
                    f"byte {begin}: a field of {length:,} bytes reaches beyond the end at byte {end}; cut off, or "
                    "no OTLP"
                )
            if wire == _LENGTH:
                yield number, at, at + length
            at += length

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        value = 0
        for place in range(10):
            if at + place >= end:
                raise _CutOff(f"byte {at}: the file ends within a number; it is cut off")
            byte = self._view[at + place]
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                return value, at + place + 1
        raise InputError(f"byte {at}: a number of more than 10 bytes; damaged, or no OTLP")

    def _parsed(self, name: str, start: int, end: int) -> Any:
        from google.protobuf.message import DecodeError

        try:
            return otlp_proto.message(name).FromString(self._view[start:end].tobytes())
        except DecodeError as error:
            raise InputError(f"byte {start}: no {name} of OTLP: {error}") from error


def _service(resource: Any) -> str:
    return next((each.value.string_value for each in resource.attributes if each.key == "service.name"), "")


def _value(value: Any) -> Any:
    """An ``AnyValue`` as a plain value; protobuf bounds its depth at 100."""
    kind = value.WhichOneof("choice")
    if kind is None:
        return None
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    if kind == "kvlist_value":
        return {each.key: _value(each.value) for each in value.kvlist_value.values}
    return getattr(value, kind)
