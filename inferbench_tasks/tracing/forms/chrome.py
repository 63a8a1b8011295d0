"""Chrome's trace format, which Perfetto and chrome://tracing read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import pyarrow as pa

from inferbench_tasks.tracing.counters import tracks_in
from inferbench_tasks.tracing.forms.values import fitting
from inferbench_tasks.tracing.lanes import MOST, lanes_of
from inferbench_tasks.tracing.spans import LEVELS, RANK, SPAN_LEVELS, Span, attributes_of, spans_of

#: Of no process: a row with the process's own number would be called its main thread, and number 0 is the kernel's.
_PID = 1_000_000
_IDS = {"trace_id", "span_id"}
#: A process, and the row in it.
_Row = tuple[int, int]


def content(table: pa.Table, about: dict[str, str]) -> bytes:
    """The file; ``about`` is its ``otherData``.

    Complete events, a row for each level, times in microseconds from the first span on; parents before children.
    See "Trace Event Format", Google. Where spans of a level overlap without one being within the other, as other tools'
    may and requests of a server that answers several, the level has more rows: viewers drop what overlaps on one. Of a
    training each rank is a process of its own. What monitors saw meanwhile are counters.
    """
    spans = list(spans_of(table))
    rows: dict[tuple[str, int], _Row] = {}
    names = [orjson.dumps(event) for event in _names(spans, rows)]
    counters = [orjson.dumps(event) for event in _counters(table, spans)]
    events = b",".join([*names, *counters, *_complete(spans, attributes_of(table), rows)])
    rest = orjson.dumps({"displayTimeUnit": "ns", "otherData": about})
    return b'{"traceEvents":[' + events + b"]," + rest[1:]


def _names(spans: Sequence[Span], rows: dict[tuple[str, int], _Row]) -> Iterator[dict[str, Any]]:
    """Events that name processes and rows; puts each span on one of ``rows``."""
    processes = _processes(spans)
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


def _counters(table: pa.Table, spans: Sequence[Span]) -> Iterator[dict[str, Any]]:
    """An event for each sample of each track; a viewer draws its value until the next one, also between rounds."""
    first_ns = min((span.start_ns for span in spans), default=0)
    for track in tracks_in(table):
        about = {"ph": "C", "pid": _PID, "name": track.title}
        for at_ns, value in zip(track.times_ns, track.values, strict=True):
            yield {**about, "ts": max(0, at_ns - first_ns) / 1e3, "args": {"value": value}}


def _complete(
    spans: Sequence[Span], attributes: Sequence[str | None], rows: dict[tuple[str, int], _Row]
) -> Iterator[bytes]:
    """An event for each span, as JSON. ``attributes``: as they are stored.

    Not by way of a mapping for each: most say what others said already, and of that the JSON is made once.
    """
    first_ns = min((span.start_ns for span in spans), default=0)
    begun = _microseconds([span.start_ns - first_ns for span in spans])
    took = _microseconds([span.duration_ns for span in spans])
    traces = {trace: orjson.dumps(trace) for trace in {span.trace_id for span in spans}}
    heads: dict[tuple[_Row, str, str], bytes] = {}
    known: dict[str | None, bytes | None] = {None: b""}
    for span, text, ts, dur in zip(spans, attributes, begun, took, strict=True):
        place, category = rows[span.trace_id, span.number], span.type or span.level
        if (head := heads.get((place, span.name, category))) is None:
            pid, row = place
            event = {"ph": "X", "pid": pid, "tid": row, "name": span.name, "cat": category}
            head = heads[place, span.name, category] = orjson.dumps(event)[:-1]
        if text not in known:
            known[text] = _told(span)
        if (told := known[text]) is None:
            ids = {"trace_id": span.trace_id, "span_id": span.span_id}
            own = orjson.dumps({**ids, **fitting(span.attributes)})
        else:
            own = b'{"trace_id":%b,"span_id":"%b"%b}' % (traces[span.trace_id], span.span_id.encode(), told)
        yield b'%b,"ts":%b,"dur":%b,"args":%b}' % (head, ts, dur, own)


def _microseconds(times_ns: Sequence[int]) -> list[bytes]:
    return orjson.dumps([ns / 1e3 for ns in times_ns])[1:-1].split(b",") if times_ns else []


def _told(span: Span) -> bytes | None:
    """The attributes of a span behind others in JSON; None where they say its ids themselves."""
    if not span.attributes:
        return b""
    if _IDS & span.attributes.keys():
        return None
    return b"," + orjson.dumps(fitting(span.attributes))[1:-1]


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
    for row, level in enumerate(SPAN_LEVELS, 1):
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
    if not any(RANK in span.attributes for span in spans if span.level == "model"):
        return {None: list(spans)}
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
