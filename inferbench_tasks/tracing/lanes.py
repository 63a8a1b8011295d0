"""Rows for spans that overlap: within one row each lies within another or beside it, as viewers want it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from inferbench_tasks.tracing.spans import Span

#: What overlaps still more stands on the last row: looking for a free one takes as long as there are rows.
MOST = 200


def lanes_of(spans: Sequence[Span], first: int) -> dict[tuple[str, int], int]:
    """(trace, number) -> row, from ``first`` on: the first one that a span fits on, longest first where they begin."""
    if _one_by_one(spans):
        return {(span.trace_id, span.number): first for span in spans}
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


def _one_by_one(spans: Sequence[Span]) -> bool:
    """Whether none begins before all that began before it are over: then one row has them all."""
    starts = np.fromiter((span.start_ns for span in spans), np.int64, len(spans))
    ends = np.fromiter((span.end_ns for span in spans), np.int64, len(spans))
    order = np.lexsort((-(ends - starts), starts))
    return bool((starts[order][1:] >= np.maximum.accumulate(ends[order])[:-1]).all())
