"""Trace files as other tools write them, and what is read of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from inferbench_tasks.tracing.foreign.base import Findings
from inferbench_tasks.tracing.foreign.file import load, read
from inferbench_tasks.tracing.foreign.tree import arranged
from inferbench_tasks.tracing.spans import Span

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def otlp_span(number: int, parent: int | None, start_ns: int, end_ns: int, **more: Any) -> dict[str, Any]:
    """A span of OTLP's JSON; its id is its number."""
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": f"op {number}",
        "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(end_ns),
    } | more


def otlp(*spans: dict[str, Any], service: str = "shop") -> bytes:
    """A document with these spans."""
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    of_scope = {"scope": {"name": "its library"}, "spans": list(spans)}
    return orjson.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [of_scope]}]})


def read_back(folder: Path, content: bytes) -> tuple[list[Span], Findings]:
    """The spans of a file with that content, as they are stored, and what was found."""
    path = folder / "trace"
    path.write_bytes(content)
    foreign = read(load(path))
    return list(arranged(foreign.spans, foreign.findings)), foreign.findings
