"""Chrome's trace format, which Perfetto and chrome://tracing read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa

from inferbench_tasks.tracing.forms.values import fitting
from inferbench_tasks.tracing.lanes import MOST, lanes_of
from inferbench_tasks.tracing.spans import LEVELS, Span, spans_of

#: Of no process: a row with the process's own number would be called its main thread, and number 0 is the kernel's.
_PID = 1_000_000


def content(table: pa.Table, about: dict[str, str]) -> bytes:
    """The file; ``about`` is its ``otherData``."""
    events = list(chrome_events(list(spans_of(table))))
    return orjson.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})


def chrome_events(spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    """Complete events, a row for each level, times in microseconds from the first span on.

    See "Trace Event Format", Google. Where spans of a level overlap without one being within the other, as other tools'
    may and requests of a server that answers several, the level has more rows: viewers drop what overlaps on one.
    """
    first_ns = min((span.start_ns for span in spans), default=0)
    rows: dict[tuple[str, int], int] = {}
    #: A row's number -> its name and its place: levels in their order, each with all of its rows.
    named = {row: (str(level), row * MOST) for row, level in enumerate(LEVELS, 1)}
    following = 1 + len(LEVELS)
    for row, level in enumerate((*LEVELS, "foreign"), 1):
        own = level != "foreign"
        lanes = lanes_of([span for span in spans if span.level == level], 0)
        # A level's first row has the level's own number; others' numbers follow behind all of these.
        numbers = [row] if own else []
        for lane in range(len(numbers), 1 + max(lanes.values(), default=-1)):
            named[following] = f"{level} {lane + 1}", row * MOST + lane
            numbers.append(following)
            following += 1
        rows |= {span: numbers[lane] for span, lane in lanes.items()}
    for row, (name, place) in named.items():
        yield {"ph": "M", "pid": _PID, "tid": row, "name": "thread_name", "args": {"name": name}}
        yield {"ph": "M", "pid": _PID, "tid": row, "name": "thread_sort_index", "args": {"sort_index": place}}
    for span in spans:
        yield {
            "ph": "X",
            "pid": _PID,
            "tid": rows[span.trace_id, span.number],
            "name": span.name,
            "cat": span.type or span.level,
            "ts": (span.start_ns - first_ns) / 1e3,
            "dur": span.duration_ns / 1e3,
            "args": {"trace_id": span.trace_id, "span_id": span.span_id, **fitting(span.attributes)},
        }
