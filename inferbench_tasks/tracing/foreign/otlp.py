"""What OTLP's two forms have in common: what must hold of a span's ids and times, and how it is told on."""

from __future__ import annotations

import re
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.foreign.base import MAX_NS, Findings, Told, level_of, stored_attributes
from inferbench_tasks.tracing.spans import STATE

_DIGITS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
_HEX = re.compile(r"[0-9a-f]+", re.IGNORECASE)
#: What a generic writer of protobuf as JSON makes of ids: base64, of 16 and 8 bytes.
_BASE64 = {24, 12}
#: Nothing lasts a year: what ends then and began in 1970 has a beginning that was never set.
_LONGEST_NS = 366 * 86_400 * 10**9
#: OTLP's number of a kind, and in words; ``ERROR``: of a status.
KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
ERROR = 2


def require_id(value: object, name: str, where: str) -> str:
    """An id in lower-case hexadecimal; empty of no parent. InputError for one that is none."""
    digits = _DIGITS[name]
    if name == "parentSpanId" and (value is None or value == "" or value == "0" * digits):
        return ""
    if not isinstance(value, str) or len(value) != digits or not _HEX.fullmatch(value):
        shown = f"{value:.40}" if isinstance(value, str) else f"{type(value).__name__}"
        more = ""
        if isinstance(value, str) and len(value) in _BASE64:
            more = "; it looks like base64, and OTLP's JSON has hexadecimal ids"
        raise InputError(f"{where}: {name} is {shown!r}, not {digits} hexadecimal digits{more}")
    if not value.strip("0"):
        raise InputError(f"{where}: {name} is all zeros, which W3C and OTLP forbid")
    return value.lower()


def told(
    place: int,
    ids: tuple[object, object, object],
    name: str,
    start_ns: int,
    end_ns: int,
    attributes: dict[str, Any],
    about: dict[str, Any],
    findings: Findings,
) -> Told | None:
    """The span, or None of one without an end or a beginning, and so a duration. ``ids``: of trace, span, parent."""
    where = f"span {place}"
    trace_id, span_id, parent_id = (
        require_id(value, what, where) for value, what in zip(ids, _DIGITS, strict=True)
    )
    for time_ns, what in ((start_ns, "startTimeUnixNano"), (end_ns, "endTimeUnixNano")):
        if not 0 <= time_ns <= MAX_NS:
            raise InputError(f"{where}: {what} is {time_ns}; allowed is 0 to {MAX_NS} (in the year 2262)")
    if end_ns == 0:
        findings.add("has no end, and is left out", f"{where}, id {span_id}")
        return None
    if start_ns == 0 and end_ns > _LONGEST_NS:
        findings.add("has no beginning, and is left out", f"{where}, id {span_id}")
        return None
    level, type_ = level_of(attributes)
    content = stored_attributes(attributes, span_id=span_id, otlp={k: v for k, v in about.items() if v})
    return Told(place, trace_id, span_id, parent_id, name, start_ns, end_ns, level, type_, content)


def about_span(
    service: str, scope: str, kind: int, status: int, message: str, events: int, links: int, state: str
) -> dict[str, Any]:
    """What OTLP says of a span besides its attributes; what is empty is left out."""
    return {
        "service": service,
        "scope": scope,
        "kind": KINDS.get(kind, ""),
        "status": "error" if status == ERROR else "",
        "message": message,
        "events": events,
        "links": links,
        STATE: state,
    }
