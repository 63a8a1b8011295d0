"""What charts of streamed tokens are drawn from: tokens second by second, gaps by their length, times by the turn."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.loadgen.token_window import TokenWindow
from inferbench_tasks.loadgen.window import NS_PER_S

#: Bounds of the gaps' bins, ms: ten in each decade, from 10 us to 100 s; what is shorter or longer has one of its own.
GAP_EDGES_MS = np.geomspace(0.01, 1e5, 71)


def tokens_per_second(tokens: TokenWindow) -> dict[str, list[Any]]:
    """Output tokens of good answers by the second of the window in which they arrived; the last may be a part of one.

    ``seconds``: how long each is. Empty where an answer's tokens were not counted.
    """
    window = tokens.window
    inside, weights = tokens.arrived_within(window.ok)
    if weights is None:
        return {"t_s": [], "seconds": [], "tokens": []}
    last = int(-(-(window.end_ns - window.start_ns) // NS_PER_S))
    second = (tokens.chunk_ns[inside] - window.start_ns - 1) // NS_PER_S  # the window is (start, end]
    counts = np.bincount(second, weights=weights, minlength=last)
    lengths = np.full(last, 1.0)
    lengths[-1] = (window.end_ns - window.start_ns) / NS_PER_S - (last - 1)
    return {"t_s": list(range(last)), "seconds": lengths.tolist(), "tokens": counts.tolist()}


def gap_histogram(gaps_ns: NDArray[np.int64]) -> dict[str, list[Any]]:
    """``counts[i]`` gaps are in [``edges_ms[i]``, ``edges_ms[i + 1]``); from the first bin with any to the last."""
    edges = np.concatenate([[0.0], GAP_EDGES_MS, [np.inf]])
    counts, _ = np.histogram(gaps_ns / 1e6, edges)
    used = np.flatnonzero(counts)
    if not len(used):
        return {"edges_ms": [], "counts": []}
    first, last = int(used[0]), int(used[-1]) + 1
    top = [None if bound == np.inf else float(bound) for bound in edges[first : last + 1]]
    return {"edges_ms": top, "counts": counts[first:last].tolist()}
