"""Which class was taken for which: tables, which can be read aloud and need nothing that draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis.report.runs import RunView

Table = dict[str, Any]
#: So many runs have one, and more classes than that are no table any more.
_RUNS, _MOST_CLASSES = 4, 25


def tables(views: Sequence[RunView]) -> list[Table]:
    """One for each of the first of these runs, which are evaluated ones; none of a run without classes."""
    found = []
    several = len(views) > 1
    for view in views[:_RUNS]:
        confusion = view.evaluation.get("confusion")
        if not confusion or len(confusion["classes"]) < 2:
            continue
        names, counts = [str(name) for name in confusion["classes"]], confusion["counts"]
        table = _matrix(names, counts) if len(names) <= _MOST_CLASSES else _confused(names, counts)
        found.append({**table, "title": f"{table['title']}, {view.label}" if several else table["title"]})
    return found


def _matrix(names: Sequence[str], counts: Sequence[Sequence[int]]) -> Table:
    """A row for each class, a column for each answer; ``shares``: of each cell, of its row, by which it is shaded."""
    return {
        "title": "Classes and answers",
        "head": ["class of the sample", *(f"as {name}" for name in names)],
        "rows": [[name, *(f"{count:,}" for count in row)] for name, row in zip(names, counts, strict=True)],
        "numbers": list(range(1, len(names) + 1)),
        "shares": [[round(count / max(1, sum(row)), 3) for count in row] for row in counts],
        "note": "Samples of the class of a row that were answered as the class of a column; the darker, the larger the "
        "share of the row.",
    }


def _confused(names: Sequence[str], counts: Sequence[Sequence[int]]) -> Table:
    """Of more classes than a table has room for: those that were taken for another most often."""
    pairs = [
        (count, names[at], names[answered], count / sum(row))
        for at, row in enumerate(counts)
        for answered, count in enumerate(row)
        if count and at != answered
    ]
    pairs.sort(key=lambda pair: -pair[0])
    return {
        "title": f"Classes that were taken for others, of {len(names)}",
        "head": ["class of the sample", "answered as", "samples", "of the class"],
        "rows": [
            [name, answered, f"{count:,}", f"{share:.1%}"]
            for count, name, answered, share in pairs[:_MOST_CLASSES]
        ],
        "numbers": [2, 3],
        "note": f"The {_MOST_CLASSES} most frequent of {len(pairs):,} pairs; all counts are in the result as JSON.",
    }
