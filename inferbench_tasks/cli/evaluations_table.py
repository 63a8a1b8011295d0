"""Rows of evaluations for a terminal: what a reader looks for; JSON and YAML have all of a row, CSV over REST too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from inferbench_tasks.contracts.verdict import split
from inferbench_tasks.figures import FIGURES

COLUMNS = (
    "run", "part", "model", "precision", "backend", "device", "dataset", "samples", "measure", "value", "ci95",
    "otherwise", "p99_ms", "samples_per_s", "verdict",
)  # fmt: skip
#: What a narrow terminal does without, the first of them first.
EXPENDABLE = (
    "otherwise", "samples_per_s", "p99_ms", "backend", "device", "precision", "samples", "ci95",
)  # fmt: skip
WITHHELD = "withheld"
#: So many reasons are told.
_TOLD = 10


def in_short(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each row (``listed.row``) its first measure, in the order of the table of figures, with its 95% interval;
    ``part``: which, or of how many it is all."""
    return [_in_short(row) for row in rows]


def columns_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Those of ``in_short``'s rows in which any of them has something."""
    return [name for name in COLUMNS if any(row[name] is not None for row in rows)]


def notes_on(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Why rows have no measures, and where the others are."""
    reasons = [f"{row['run']}: {row['withheld']}" for row in rows if row["withheld"]]
    notes = reasons[:_TOLD]
    if len(reasons) > _TOLD:
        notes.append(f"{len(reasons) - _TOLD:,} more are withheld; -o json has the reasons.")
    if any(len(row["measures"]) > 1 for row in rows):
        notes.append("Each run's first measure; `inferbench evaluations show RUN` and -o json have all.")
    return notes


def _in_short(row: dict[str, Any]) -> dict[str, Any]:
    measures = row["measures"]
    name = next((each.name for each in FIGURES.values() if each.name in measures), next(iter(measures), None))
    first = measures[name] if name is not None else {"value": None, "ci95": None}
    return {
        **{each: row[each] for each in ("run", "model", "precision", "backend", "device", "samples")},
        "part": row["part"] or (f"all {row['parts']}" if row["parts"] else None),
        # How many are right says little of new samples there.
        "dataset": f"{row['dataset']} (training)" if row["training"] else row["dataset"],
        "measure": WITHHELD if row["withheld"] else name,
        "value": first["value"],
        "ci95": first["ci95"],
        "otherwise": row["otherwise"],
        "p99_ms": row["p99_ms"],
        "samples_per_s": row["throughput_samples_per_s"],
        "verdict": split(str(row["verdict"]))[0],
    }
