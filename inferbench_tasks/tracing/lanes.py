"""Rows for spans that overlap: within one row each lies within another or beside it, as viewers want it."""

from __future__ import annotations

from collections.abc import Sequence

from inferbench_tasks.tracing.spans import Span

#: What overlaps still more stands on the last row: looking for a free one takes as long as there are rows.
MOST = 200


def lanes_of(spans: Sequence[Span], first: int) -> dict[tuple[str, int], int]:
    """(trace, number) -> row, from ``first`` on: the first one that a span fits on, longest first where they begin."""
    lanes: list[list[int]] = []
    found = {}
    for span in sorted(spans, key=lambda span: (span.start_ns, -span.duration_ns)):
        for at, ends in enumerate(lanes):
            while ends and ends[-1] <= span.start_ns:
                ends.pop()
            if not ends or ends[-1] >= span.end_ns or at == MOST - 1:
                break
        else:
            at, ends = len(lanes), []
            lanes.append(ends)
        ends.append(span.end_ns)
        found[span.trace_id, span.number] = first + at
    return found
