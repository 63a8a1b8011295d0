"""OTLP as JSON: ids in hexadecimal, as Triton and the specification have them; one document, or one on each line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.foreign.base import Foreign, Told, plain, require_room, text
from inferbench_tasks.tracing.foreign.documents import documents
from inferbench_tasks.tracing.foreign.otlp import KINDS, about_span, told

#: OTLP allows a kind or a status as a number, and as the name of the enumeration.
_NAMES = {
    "SPAN_KIND_UNSPECIFIED": 0,
    **{f"SPAN_KIND_{name.upper()}": number for number, name in KINDS.items()},
    "STATUS_CODE_UNSET": 0,
    "STATUS_CODE_OK": 1,
    "STATUS_CODE_ERROR": 2,
}


def read(content: bytes) -> Foreign:
    """The spans of all documents of a file."""
    foreign = Foreign("OTLP JSON", "unix", iter(()))
    foreign.spans = _spans(content, foreign)
    return foreign


def _spans(content: bytes, foreign: Foreign) -> Iterator[Told]:
    place = 0
    for where, document in documents(content):
        for resource_at, of_resource in _each(document, "resourceSpans", where):
            attributes = _attributes(of_resource.get("resource") or {}, resource_at)
            service = text(attributes.get("service.name"))
            if service:
                foreign.services.add(service)
            for scope_at, of_scope in _each(of_resource, "scopeSpans", resource_at):
                scope = _mapping(of_scope.get("scope") or {}, f"{scope_at}.scope").get("name")
                for at, span in _each(of_scope, "spans", scope_at):
                    place += 1
                    require_room(place)
                    if found := _told(place, span, at, service, text(scope), foreign):
                        yield found


def _told(
    place: int, span: dict[str, Any], at: str, service: str, scope: str, foreign: Foreign
) -> Told | None:
    status = _mapping(span.get("status") or {}, f"{at}.status")
    about = about_span(
        service, scope, _number(span.get("kind", 0), f"{at}.kind"), _number(status.get("code", 0), f"{at}.status.code"),
        text(status.get("message")), len(_list(span, "events", at)), len(_list(span, "links", at)),
        text(span.get("traceState")),
    )  # fmt: skip
    name = span.get("name", "")
    if not isinstance(name, str):
        raise InputError(f"{at}.name is no text")
    try:
        return told(
            place,
            (span.get("traceId"), span.get("spanId"), span.get("parentSpanId")),
            name,
            _number(span.get("startTimeUnixNano", 0), f"{at}.startTimeUnixNano"),
            _number(span.get("endTimeUnixNano", 0), f"{at}.endTimeUnixNano"),
            plain(_attributes(span, at)),
            about,
            foreign.findings,
        )
    except InputError as error:
        raise InputError(f"{at}: {error.message}") from error


def _each(document: dict[str, Any], name: str, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The mappings of a list with their places; each is let go as it is read."""
    found = _list(document, name, where)
    for number, each in enumerate(found):
        found[number] = None
        at = f"{where}.{name}[{number}]".lstrip(".")
        yield at, _mapping(each, at)


def _list(document: dict[str, Any], name: str, where: str) -> list[Any]:
    found = document.get(name)
    if found is None:
        return []
    if not isinstance(found, list):
        raise InputError(f"{where}.{name} is no list".lstrip("."))
    return found


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} is no mapping")
    return value


def _number(value: Any, where: str) -> int:
    """A whole number; 64-bit ones are texts in protobuf's JSON."""
    if isinstance(value, str):
        if value in _NAMES:
            return _NAMES[value]
        # int() reads more than this: signs, blanks, underscores.
        if not (value.isascii() and value.isdigit() and len(value) <= 20):
            raise InputError(f"{where} is {value[:40]!r}, no whole number")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{where} is {text(value)!r}, no whole number")
    return value


def _attributes(holder: dict[str, Any], where: str) -> dict[str, Any]:
    found = {}
    for each in _list(holder, "attributes", where):
        if not isinstance(each, dict) or not isinstance(each.get("key"), str):
            raise InputError(f"{where}.attributes: each has a `key` and a `value`")
        found[each["key"]] = _value(each.get("value"), f"{where}.attributes, {each['key'][:100]}")
    return found


def _value(value: Any, where: str, depth: int = 0) -> Any:
    """An ``AnyValue`` as a plain value."""
    if value is None or value == {}:
        return None
    if not isinstance(value, dict) or len(value) != 1 or depth > 100:
        raise InputError(f"{where}: no value as OTLP has it, for instance {{stringValue: x}}")
    ((kind, content),) = value.items()
    if kind == "arrayValue":
        return [_value(each, where, depth + 1) for each in _list(_mapping(content, where), "values", where)]
    if kind == "kvlistValue":
        entries = _list(_mapping(content, where), "values", where)
        pairs = [_mapping(each, where) for each in entries]
        return {text(each.get("key")): _value(each.get("value"), where, depth + 1) for each in pairs}
    if kind == "intValue":
        # Negative ones too, which no time is.
        negative = isinstance(content, str) and content.startswith("-")
        return -_number(content[1:], where) if negative else _number(content, where)
    return content
