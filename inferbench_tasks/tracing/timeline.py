"""The spans of a trace as columns for a picture: small numbers in place of ids, names once, times from the first on."""

from __future__ import annotations

from typing import Any

import numpy as np

from inferbench_tasks.tracing.columns import Columns
from inferbench_tasks.tracing.own_times import own_times
from inferbench_tasks.tracing.spans import HARDWARE

#: So many spans a picture has at most, of whole requests; one request may have more.
MOST_SPANS = 200_000


def timeline(columns: Columns, trace: str = "") -> dict[str, Any]:
    """The spans, by their beginnings, of all requests, as many as ``MOST_SPANS`` allows (``left_out``: spans of the
    others), or of that of ``trace`` alone.

    ``start_ns`` is Unix time of the first span, as text, which no browser would round; ``parts``: which part of its
    load each request says that it is, or ""; ``columns``: of each span its request's place in ``requests``, its number
    in it, the row around it, the places of its level, name and type in the lists, ns from ``start_ns`` on, its ns, and
    those that are its own (``own_times``).
    """
    count = len(columns)
    chosen = np.arange(count)
    if trace:
        chosen = np.flatnonzero(
            columns.trace == (columns.traces.index(trace) if trace in columns.traces else -1)
        )
    elif count > MOST_SPANS:
        sizes = np.bincount(columns.trace, minlength=len(columns.traces))
        whole = max(1, int(np.searchsorted(np.cumsum(sizes), MOST_SPANS, side="right")))
        chosen = np.flatnonzero(columns.trace < whole)
    # In the order in which they begin, outer ones first: who draws them need not sort them.
    chosen = chosen[np.lexsort((-columns.duration_ns[chosen], columns.start_ns[chosen]))]
    of_rows = np.full(count + 1, -1)
    of_rows[chosen] = np.arange(len(chosen))
    start_ns = int(columns.start_ns[chosen].min()) if len(chosen) else 0
    parent = of_rows[columns.parent[chosen]]
    # What a GPU does takes none of the time of the call that asked for it, which has returned by then.
    on_gpu = columns.levels.index(HARDWARE) if HARDWARE in columns.levels else -1
    within = np.where(columns.level[chosen] == on_gpu, -1, parent)
    requests, request = np.unique(columns.trace[chosen], return_inverse=True)
    return {
        "spans": count,
        "left_out": 0 if trace else count - len(chosen),
        "start_ns": str(start_ns),
        "requests": [columns.traces[at] for at in requests],
        "parts": [columns.parts[at] for at in requests],
        "levels": columns.levels,
        "names": columns.names,
        "types": columns.types,
        "columns": {
            "request": request.reshape(-1),
            "number": columns.number[chosen],
            "parent": parent,
            "level": columns.level[chosen],
            "name": columns.name[chosen],
            "type": columns.type[chosen],
            "start_ns": columns.start_ns[chosen] - start_ns,
            "duration_ns": columns.duration_ns[chosen],
            "own_ns": own_times(columns.start_ns[chosen], columns.duration_ns[chosen], within),
        },
    }
