"""Chrome's trace format ("Trace Event Format", Google): complete events, and pairs of begin and end.

A thread's events lie within each other by their times; so do those of one asynchronous id. Times are in microseconds of
a clock of the file's own.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.foreign.base import (
    MAX_NS,
    Foreign,
    Told,
    plain,
    require_room,
    stored_attributes,
    text,
)
from inferbench_tasks.tracing.foreign.documents import parsed

_BEGINS, _ENDS = {"B": "E", "b": "e"}, {"E", "e"}
#: Moments, counters, links between spans, names: no spans.
_OTHERS = "counted, and left out: events of phase"


class _Event(NamedTuple):
    """An event with a duration. ``place``: which of the file's events it is, from 1."""

    place: int
    start_ns: int
    end_ns: int
    event: dict[str, Any]


def read(content: bytes) -> Foreign:
    """The spans of a list of events, or of a document with ``traceEvents``.

    The list's end may be missing, as the format allows; that is told.
    """
    foreign = Foreign("Chrome trace", "file", iter(()))
    foreign.spans = _spans(content, foreign)
    return foreign


def _events(content: bytes, foreign: Foreign) -> list[Any]:
    stripped = content.strip()
    if stripped.startswith(b"[") and not stripped.endswith(b"]"):
        document = parsed(stripped.rstrip(b", \r\n\t") + b"]")
        foreign.findings.add("the list of events has no end, as the format allows", "the end of the file")
    else:
        document = parsed(content)
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise InputError("traceEvents is no list")
    return events


def _spans(content: bytes, foreign: Foreign) -> Iterator[Told]:
    trace_id = hashlib.sha256(content).hexdigest()[:32]
    lines: dict[tuple[str, ...], list[_Event]] = defaultdict(list)
    open_: dict[tuple[str, ...], list[tuple[int, int, dict[str, Any]]]] = defaultdict(list)
    names: dict[tuple[str, ...], str] = {}
    count = 0
    for place, event in enumerate(_events(content, foreign), 1):
        where = f"traceEvents[{place - 1}]"
        if not isinstance(event, dict):
            raise InputError(f"{where} is no mapping")
        phase = text(event.get("ph"))
        if phase == "M":
            _keep_name(event, names)
            continue
        if phase != "X" and phase not in _BEGINS and phase not in _ENDS:
            foreign.findings.add(f"{_OTHERS} {phase!r}", where)
            continue
        line = _line(event)
        start_ns = _ns(event.get("ts"), f"{where}.ts")
        if phase == "X":
            if event.get("dur") is None:
                foreign.findings.add("has no end, and is left out", where)
                continue
            end_ns = start_ns + _ns(event["dur"], f"{where}.dur")
        elif phase in _BEGINS:
            open_[line].append((place, start_ns, event))
            continue
        elif not open_[line]:
            foreign.findings.add("ends what did not begin, and is left out", where)
            continue
        else:
            end_ns = start_ns
            place, start_ns, begun = open_[line].pop()
            event = {**begun, "args": {**_args(begun), **_args(event)}}
        if max(abs(end_ns), abs(end_ns - start_ns)) > MAX_NS:
            raise InputError(
                f"traceEvents[{place - 1}] ends or lasts beyond what 64 bits of nanoseconds hold"
            )
        count += 1
        require_room(count)
        lines[line].append(_Event(place, start_ns, end_ns, event))
    for left in open_.values():
        for place, _, _ in left:
            foreign.findings.add("has no end, and is left out", f"traceEvents[{place - 1}]")
    for line, events in lines.items():
        yield from _nested(trace_id, events, names, line)


def _nested(
    trace_id: str, events: list[_Event], names: dict[tuple[str, ...], str], line: tuple[str, ...]
) -> Iterator[Told]:
    """Each event of a line within the last one that began before it and goes on."""
    events.sort(key=lambda each: (each.start_ns, -each.end_ns, each.place))
    around: list[_Event] = []
    process, thread = names.get(line[:2], line[1]), names.get(line[:3], line[2])
    for each in events:
        while around and around[-1].end_ns <= each.start_ns:
            around.pop()
        about = {"process": process, "thread": thread, "category": text(each.event.get("cat"))}
        try:
            args = plain(_args(each.event))
        except InputError as error:
            raise InputError(f"traceEvents[{each.place - 1}]: {error.message}") from error
        span_id = f"{each.place:016x}"
        yield Told(
            each.place,
            trace_id,
            span_id,
            f"{around[-1].place:016x}" if around else "",
            _name(each),
            each.start_ns,
            each.end_ns,
            "foreign",
            "",
            stored_attributes(args, span_id=span_id, chrome={k: v for k, v in about.items() if v}),
        )
        around.append(each)


def _line(event: dict[str, Any]) -> tuple[str, ...]:
    """What events lie within each other on: a thread, or an asynchronous id."""
    thread = ("thread", text(event.get("pid")), text(event.get("tid")))
    if event["ph"] in ("b", "e"):
        number = event.get("id", event.get("id2"))
        if isinstance(number, dict):  # `id2` is local to a process or global
            number = next(iter(number.values()), None)
        return ("thread", thread[1], f"asynchronous {text(event.get('cat'))} {text(number)}")
    return thread


def _keep_name(event: dict[str, Any], names: dict[tuple[str, ...], str]) -> None:
    name = _args(event).get("name")
    if isinstance(name, str):
        line = ("thread", text(event.get("pid")), text(event.get("tid")))
        if event.get("name") == "process_name":
            names[line[:2]] = name[:200]
        elif event.get("name") == "thread_name":
            names[line] = name[:200]


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _name(each: _Event) -> str:
    name = each.event.get("name", "")
    if not isinstance(name, str):
        raise InputError(f"traceEvents[{each.place - 1}].name is no text")
    return name


def _ns(value: Any, where: str) -> int:
    """Microseconds as nanoseconds; the whole ones exactly, whatever their size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{where} is {text(value)!r}, no number of microseconds")
    if not abs(value) * 1000 <= MAX_NS:
        raise InputError(f"{where} is {value}: beyond what 64 bits of nanoseconds hold")
    whole = int(value)
    return whole * 1000 + round((value - whole) * 1000)
