"""What of a span's time is its own, and what it is called beside others of its kind."""

from __future__ import annotations

import re

import numpy as np

from inferbench_tasks.tracing.columns import Columns, Ints

#: A step of a training, which has its number in its name (``training.step_spans``).
_STEP = re.compile(r"step \d+")


def own_times(start_ns: Ints, duration_ns: Ints, above: Ints) -> Ints:
    """ns of each span in which none of the spans in it ran. ``above``: the row of the one around it, -1 of none.

    Spans within one may overlap, as the ranks of a training do, and reach beyond it: what several share counts once,
    and what is beyond not at all, so that no time is below 0.
    """
    length_ns = np.maximum(duration_ns, 0)
    inner = np.flatnonzero(above >= 0)
    order = inner[np.lexsort((start_ns[inner], above[inner]))]
    around = above[order]
    # Within their parents, which lie one behind the other, so that what ended last is never of an earlier parent.
    begin = np.cumsum(length_ns)[around] - length_ns[around]
    starts = np.clip(start_ns[order] - start_ns[around], 0, length_ns[around]) + begin
    ends = np.clip(start_ns[order] + length_ns[order] - start_ns[around], 0, length_ns[around]) + begin
    before = np.concatenate(([0], np.maximum.accumulate(ends)[:-1])) if len(ends) else ends
    own_ns = length_ns.copy()
    np.subtract.at(own_ns, around, np.maximum(0, ends - np.maximum(starts, before)))
    return own_ns


def unnumbered(columns: Columns) -> tuple[list[str], Ints]:
    """Names, and each span's place among them, with all steps of a training under one: its thousands of steps are one
    frame with their phases in it, not one each."""
    numbered = [at for at, name in enumerate(columns.names) if _STEP.fullmatch(name)]
    ours = [at for at, level in enumerate(columns.levels) if level == "application"]
    steps = np.isin(columns.name, numbered) & np.isin(columns.level, ours) & (columns.parent < 0)
    names = [*columns.names, "step"]
    return names, np.where(steps, len(names) - 1, columns.name)
