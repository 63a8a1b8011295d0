"""Chrome's trace format, which Perfetto and chrome://tracing read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa

from inferbench_tasks.tracing.forms.values import fitting
from inferbench_tasks.tracing.lanes import MOST, lanes_of
from inferbench_tasks.tracing.spans import LEVELS, RANK, Span, spans_of

#: Of no process: a row with the process's own number would be called its main thread, and number 0 is the kernel's.
_PID = 1_000_000
#: A process, and the row in it.
_Row = tuple[int, int]


def content(table: pa.Table, about: dict[str, str]) -> bytes:
    """The file; ``about`` is its ``otherData``."""
    events = list(chrome_events(list(spans_of(table))))
    return orjson.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": about})


def chrome_events(spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    """Complete events, a row for each level, times in microseconds from the first span on; parents before children.

    See "Trace Event Format", Google. Where spans of a level overlap without one being within the other, as other tools'
    may and requests of a server that answers several, the level has more rows: viewers drop what overlaps on one. Of a
    training each rank is a process of its own.
    """
    first_ns = min((span.start_ns for span in spans), default=0)
    processes = _processes(spans)
    rows: dict[tuple[str, int], _Row] = {}
    following = 1 + len(LEVELS)
    for rank, own in processes.items():
        pid = _PID if rank is None else _PID + 1 + rank
        if len(processes) > 1:
            name = "all ranks" if rank is None else f"rank {rank}"
            yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}
        named, following = _laid(own, pid, following, rows)
        for row, (name, place) in named.items():
            about = {"ph": "M", "pid": pid, "tid": row}
            yield {**about, "name": "thread_name", "args": {"name": name}}
            yield {**about, "name": "thread_sort_index", "args": {"sort_index": place}}
    for span in spans:
        pid, row = rows[span.trace_id, span.number]
        yield {
            "ph": "X",
            "pid": pid,
            "tid": row,
            "name": span.name,
            "cat": span.type or span.level,
            "ts": (span.start_ns - first_ns) / 1e3,
            "dur": span.duration_ns / 1e3,
            "args": {"trace_id": span.trace_id, "span_id": span.span_id, **fitting(span.attributes)},
        }


def _laid(
    spans: Sequence[Span], pid: int, following: int, rows: dict[tuple[str, int], _Row]
) -> tuple[dict[int, tuple[str, int]], int]:
    """Puts the spans of a process on ``rows``; a row's number -> its name and its place: levels in their order, each
    with all of its rows. And the number from which on others are free.
    """
    ours = pid == _PID
    named = {row: (str(level), row * MOST) for row, level in enumerate(LEVELS, 1)} if ours else {}
    by_level: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_level[span.level].append(span)
    for row, level in enumerate((*LEVELS, "foreign"), 1):
        lanes = lanes_of(by_level[level], 0)
        # A level's first row has the level's own number; others' numbers follow behind all of these.
        numbers = [row] if row in named else []
        for lane in range(len(numbers), 1 + max(lanes.values(), default=-1)):
            name = f"{level} {lane + 1}" if ours or lane else level
            named[following] = name, row * MOST + lane
            numbers.append(following)
            following += 1
        rows |= {span: (pid, numbers[lane]) for span, lane in lanes.items()}
    return named, following


def _processes(spans: Sequence[Span]) -> dict[int | None, list[Span]]:
    """The spans in no rank of a training, under None, and those of each rank, what lies in its step included."""
    groups: dict[int | None, list[Span]] = {None: []}
    rank_of: dict[tuple[str, int], int] = {}
    for span in spans:
        rank = rank_of.get((span.trace_id, span.parent))
        if span.level == "model":
            rank = span.attributes.get(RANK, rank)
        if isinstance(rank, int):
            rank_of[span.trace_id, span.number] = rank
        else:
            rank = None
        groups.setdefault(rank, []).append(span)
    return {rank: groups[rank] for rank in sorted(groups, key=lambda rank: -1 if rank is None else rank)}
