"""What rows of devices side by side are called: the model and precision, and whatever else tells two of them apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: Columns beside model and precision that two rows can differ in, and how each is written.
_TELLING: dict[str, Callable[[Any], str]] = {
    "framework": str,
    "model_digest": lambda digest: f"({digest[:8]})",
    "task": str,
    "protocol": str,
    "asked": str,
}


def of_rows(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """``m, fp32``; ``m, fp32, grpc, random requests (samples 8)`` where rows of one model and precision were asked
    otherwise: unlike things never have one name.
    """
    values: dict[tuple[Any, Any], dict[str, set[Any]]] = {}
    for row in rows:
        columns = values.setdefault((row["model"], row["precision"]), {name: set() for name in _TELLING})
        for name, seen in columns.items():
            seen.add(row.get(name))
    return [_name(row, values[row["model"], row["precision"]]) for row in rows]


def _name(row: Mapping[str, Any], columns: Mapping[str, set[Any]]) -> str:
    name = f"{row['model']}, {row['precision']}"
    for column, written in _TELLING.items():
        if len(columns[column]) > 1 and row.get(column) is not None:
            name += (" " if column == "model_digest" else ", ") + written(row[column])
    return name
