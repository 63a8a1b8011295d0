"""Which class was taken for which: tables, which can be read aloud and need nothing that draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.analysis.report.runs import RunView

Table = dict[str, Any]
#: Class of samples -> how many of them were given each answer.
Rows = Mapping[str, Sequence[int]]
#: So many runs have one, and more classes than that are no table any more.
_RUNS, _MOST_CLASSES = 4, 25
_NONE = "no class"


def tables(views: Sequence[RunView]) -> list[Table]:
    """One for each of the first of these runs, which are evaluated ones; none of a run without classes, and of many
    classes none where no sample was taken for another. Where runs are left out, the last table says so.
    """
    found = []
    several = len(views) > 1
    classified = [
        view for view in views if len((view.evaluation.get("confusion") or {}).get("classes", ())) > 1
    ]
    for view in classified[:_RUNS]:
        confusion = view.evaluation["confusion"]
        classes, counts = confusion["classes"], confusion["counts"]
        # A number below zero is no class (``quality.confusion``): of answers it is that they name none.
        named = [at for at, number in enumerate(classes) if number >= 0]
        columns = [(str(classes[at]), [row[at] for row in counts]) for at in named]
        if len(named) < len(classes):
            columns.append((_NONE, [sum(row) - sum(row[at] for at in named) for row in counts]))
        rows = {str(classes[at]): [column[at] for _, column in columns] for at in named}
        answers = [name for name, _ in columns]
        table = _matrix(rows, answers) if len(rows) <= _MOST_CLASSES else _confused(rows, answers)
        if table is not None:
            found.append({**table, "title": f"{table['title']}, {view.label}" if several else table["title"]})
    if found and len(classified) > _RUNS:
        found[-1]["note"] += f" {_which('first', _RUNS, len(classified), 'runs with classes')}"
    return found


def _which(order: str, most: int, count: int, what: str) -> str:
    """Which of them are shown, and of how many."""
    if count > most:
        return f"The {most} {order} of {count:,} {what}; all counts are in the result as JSON."
    return f"All {what}: {count:,}."


def _matrix(rows: Rows, answers: Sequence[str]) -> Table:
    """A row for each class, a column for each answer; ``shares``: of each cell, of its row, by which it is shaded."""
    return {
        "title": "Classes and answers",
        "head": ["class of the sample", *(f"as {name}" for name in answers)],
        "rows": [[name, *(f"{count:,}" for count in row)] for name, row in rows.items()],
        "numbers": list(range(1, len(answers) + 1)),
        "shares": [[round(count / max(1, sum(row)), 3) for count in row] for row in rows.values()],
        "note": "Samples of the class of a row that were answered as the class of a column; the darker, the larger the "
        "share of the row.",
    }


def _confused(rows: Rows, answers: Sequence[str]) -> Table | None:
    """Of more classes than a table has room for: those that were taken for another most often; None without any."""
    pairs = [
        (count, name, answer, count / sum(row))
        for name, row in rows.items()
        for answer, count in zip(answers, row, strict=True)
        if count and answer != name
    ]
    if not pairs:
        return None
    pairs.sort(key=lambda pair: -pair[0])
    return {
        "title": f"Classes that were taken for others, of {len(rows)}",
        "head": ["class of the sample", "answered as", "samples", "of the class"],
        "rows": [
            [name, answer, f"{count:,}", f"{share:.1%}"]
            for count, name, answer, share in pairs[:_MOST_CLASSES]
        ],
        "numbers": [2, 3],
        "note": _which("most frequent", _MOST_CLASSES, len(pairs), "pairs"),
    }
