"""The samples of one evaluation: what was answered to each, a bounded part at a time."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from inferbench_tasks.analysis.evaluations.differing import APART, OTHERWISE, SCORES

Only = Literal["all", "wrong", "otherwise", "unanswered"]
ONLY: tuple[Only, ...] = ("all", "wrong", "otherwise", "unanswered")


def picked(table: pa.Table, only: Only = "all") -> pa.Table:
    """Those samples in their order: ``wrong``: another class than the label, the surest first; ``otherwise``: another
    class than alone, or further apart than the bound, the furthest first (of files of before differences were kept, by
    class alone); ``unanswered``: without an answer. Samples whose answers are no classes are never wrong.
    """
    if only == "all":
        return table
    answer = table["answer"]
    if only == "unanswered":
        return table.filter(pc.is_null(table["latency_ms"]))
    if only == "otherwise" and OTHERWISE in table.column_names:
        chosen = table.filter(pc.fill_null(table[OTHERWISE], False))
        return chosen.sort_by([(APART, "descending")])
    other = "label" if only == "wrong" else "answer_one_by_one"
    chosen = table.filter(pc.fill_null(pc.not_equal(answer, table[other]), False))
    return chosen.sort_by([("score", "descending")]) if only == "wrong" else chosen


def rows(table: pa.Table, limit: int, offset: int) -> list[dict[str, Any]]:
    """``limit`` rows from the ``offset`` on, as plain values."""
    # Of one run all samples have one device, which the run says; all classes' scores are for AUC alone.
    shown = [name for name in table.column_names if name not in ("device", SCORES)]
    found: list[dict[str, Any]] = table.select(shown).slice(offset, limit).to_pylist()
    return found
