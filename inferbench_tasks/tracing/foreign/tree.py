"""Spans in the order that ours are stored in: trace by trace, parents before children; and whether they are trees."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import orjson

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.assemble import TOLERANCE_NS
from inferbench_tasks.tracing.foreign.base import Findings, Told
from inferbench_tasks.tracing.spans import Span

#: So many spans of a cycle are named.
_SHOWN = 5


def arranged(spans: Iterable[Told], findings: Findings) -> Iterator[Span]:
    """The spans as ours. InputError for ids that two spans of a trace share, and for cycles.

    A span whose parent is not in the file is a beginning; that, a negative duration, and a reach of more than 50 us
    beyond the parent are found, and kept as they were told.
    """
    traces: dict[str, list[Told]] = defaultdict(list)
    for span in spans:
        traces[span.trace_id].append(span)
    for trace in sorted(traces.values(), key=lambda trace: min(span.start_ns for span in trace)):
        yield from _trace(trace, findings)


def _trace(trace: list[Told], findings: Findings) -> Iterator[Span]:
    at_id: dict[str, Told] = {}
    for span in trace:
        other = at_id.setdefault(span.span_id, span)
        if other is span:
            continue
        if other._replace(place=0) != span._replace(place=0):
            raise InputError(
                f"span {span.place}: its id {span.span_id} is that of span {other.place}, too, and they differ"
            )
        findings.add("is there twice, and kept once", _named(span))
    children: dict[str, list[Told]] = defaultdict(list)
    begins: list[Told] = []
    for span in at_id.values():
        if span.parent_id in at_id:
            children[span.parent_id].append(span)
            continue
        if span.parent_id:
            findings.add("has a parent that is not in the file", f"{_named(span)}, parent {span.parent_id}")
        begins.append(span)
    number = 0
    # A stack of its own: a chain of a million spans is no recursion.
    waiting = [(span, -1, span) for span in _latest_first(begins)]
    while waiting:
        span, parent_number, parent = waiting.pop()
        _judge(span, parent, findings)
        yield Span(
            span.trace_id,
            number,
            parent_number,
            span.level,
            span.name,
            span.start_ns,
            span.end_ns - span.start_ns,
            span.type,
            orjson.loads(span.attributes),
        )
        waiting += [(child, number, span) for child in _latest_first(children.pop(span.span_id, []))]
        number += 1
    if number < len(at_id):
        _refuse_cycle(at_id, children)


def _latest_first(spans: Sequence[Told]) -> list[Told]:
    return sorted(spans, key=lambda span: (-span.start_ns, -span.place))


def _judge(span: Told, parent: Told, findings: Findings) -> None:
    if span.end_ns < span.start_ns:
        findings.add("ends before it begins", f"{_named(span)}: {span.end_ns - span.start_ns:,} ns")
    beyond_ns = max(parent.start_ns - span.start_ns, span.end_ns - parent.end_ns)
    if beyond_ns > TOLERANCE_NS:
        findings.add("reaches beyond its parent", f"{_named(span)}: by {beyond_ns:,} ns")


def _refuse_cycle(at_id: dict[str, Told], left: dict[str, list[Told]]) -> None:
    """All that was not reached hangs on a cycle: up from any of it leads into one."""
    span = next(iter(left.values()))[0]
    seen: set[str] = set()
    while span.span_id not in seen:
        seen.add(span.span_id)
        span = at_id[span.parent_id]
    cycle = [span]
    while (above := at_id[cycle[-1].parent_id]) is not span:
        cycle.append(above)
    shown = " < ".join(_named(each) for each in cycle[:_SHOWN])
    more = f" and {len(cycle) - _SHOWN:,} more" if len(cycle) > _SHOWN else ""
    raise InputError(f"a cycle of {len(cycle):,} spans, each the parent of the one before: {shown}{more}")


def _named(span: Told) -> str:
    return f"span {span.place}, id {span.span_id}"
