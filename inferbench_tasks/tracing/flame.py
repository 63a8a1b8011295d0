"""A flame graph: spans with the same way down from the request are one, with their times added up.

After B. Gregg, "The Flame Graph", CACM 59(6), 2016; what lies in a frame stands in the order in which it first ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import numpy as np

from inferbench_tasks.tracing.columns import Columns, depths
from inferbench_tasks.tracing.own_times import own_times, unnumbered
from inferbench_tasks.tracing.spans import HARDWARE, MEASURED, Part

#: So many frames are told, the longest; and of so many spans within each other the outer ones.
MOST_FRAMES, MOST_DEEP = 5_000, 200


def flame_graph(
    columns: Columns, levels: Collection[str] | None = None, trace: str = "", part: Part = MEASURED
) -> dict[str, Any]:
    """``frames``, outer ones before those in them: ``parent`` (a frame's place, -1 of none), ``spans`` (how many),
    ``total_ns``, and ``self_ns``: the part of it in which nothing ran that lies in it, see ``own_times``.

    ``levels``: only spans of these, None: of all. ``trace``: of this request alone, else of those of ``part`` (a
    request that says none is a measured one): warm-up takes longer, and is in no sum with what was measured.
    ``apart``: how many requests are of each other part. ``spans``: of how many; ``left_out``: of how many not, for
    ``MOST_DEEP`` and ``MOST_FRAMES``; ``beside``: of how many not, as a GPU did them while the CPU went on: what is
    within a frame is a part of its time, so they are in a graph of their own, of the level ``hardware`` alone.
    """
    there = set(columns.levels)
    shown = there if levels is None else there & set(levels)
    if apart_from_cpu := HARDWARE in shown and shown != {HARDWARE}:
        levels = shown - {HARDWARE}
    kept, above = columns.within(levels)
    beside = np.zeros(len(columns), dtype=bool)
    if apart_from_cpu:
        beside = columns.level == columns.levels.index(HARDWARE)
    apart: Counter[str] = Counter()
    if trace:
        own = columns.trace == (columns.traces.index(trace) if trace in columns.traces else -1)
        kept, beside = kept & own, beside & own
    else:
        parts = [of or MEASURED for of in columns.parts]
        apart.update(of for of in parts if of != part)
        if apart:
            own = np.array([of == part for of in parts], dtype=bool)[columns.trace]
            kept, beside = kept & own, beside & own
    own_ns = own_times(columns.start_ns, columns.duration_ns, np.where(kept, above, -1))
    frames: list[dict[str, Any]] = []
    names, name = unnumbered(columns)
    what = (columns.level * len(columns.types) + columns.type) * len(names) + name
    alike = len(columns.levels) * len(columns.types) * len(names)
    #: The row of a span -> its frame.
    frame_of = np.full(len(columns), -1)
    chosen = np.flatnonzero(kept)
    deep = depths(above)[chosen]
    order = np.argsort(deep, kind="stable")
    ends = np.searchsorted(deep[order], np.arange(1, MOST_DEEP + 1))
    begin = 0
    for depth, end in enumerate(ends.tolist()):
        rows = chosen[order[begin:end]]
        begin = end
        if not len(rows):
            break
        outer = np.where(above[rows] < 0, -1, frame_of[above[rows]])
        _, first, which, counts = np.unique(
            (outer + 1) * alike + what[rows], return_index=True, return_inverse=True, return_counts=True
        )
        place = np.empty(len(first), dtype=np.int64)  # in the order of their first spans
        place[np.argsort(first)] = np.arange(len(first))
        frame_of[rows] = len(frames) + place[which]
        totals, owns = np.zeros(len(first), np.int64), np.zeros(len(first), np.int64)
        np.add.at(totals, which, columns.duration_ns[rows])
        np.add.at(owns, which, own_ns[rows])
        for at in np.argsort(first).tolist():
            row = rows[first[at]]
            frames.append(
                {
                    "parent": int(outer[first[at]]),
                    "depth": depth,
                    "level": columns.levels[columns.level[row]],
                    "name": names[name[row]],
                    "type": columns.types[columns.type[row]],
                    "spans": int(counts[at]),
                    "total_ns": int(totals[at]),
                    "self_ns": int(owns[at]),
                }
            )
    frames = _longest(frames)
    told = sum(frame["spans"] for frame in frames)
    requests = len(np.unique(columns.trace[chosen])) if len(chosen) else 0
    return {
        "part": "" if trace else part,
        "apart": dict(apart),
        "requests": requests,
        "spans": told,
        "left_out": len(chosen) - told,
        "beside": int(np.count_nonzero(beside)),
        "frames": frames,
    }


def _longest(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The frames with the most time, and none without the one around it."""
    if len(frames) <= MOST_FRAMES:
        return frames
    by_time = sorted(range(len(frames)), key=lambda at: -frames[at]["total_ns"])
    chosen = set(by_time[:MOST_FRAMES])
    places: dict[int, int] = {-1: -1}
    kept: list[dict[str, Any]] = []
    for at, frame in enumerate(frames):
        if at in chosen and frame["parent"] in places:
            places[at] = len(kept)
            kept.append({**frame, "parent": places[frame["parent"]]})
    return kept
