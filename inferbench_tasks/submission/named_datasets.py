"""Where a submission names a data set by its manifest: ``evaluate: {dataset: words@^1}``, under ``sweep`` too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from inferbench_tasks.problem import FieldPath

#: A name of a data set has none of these; what a constraint is written with does.
_CONSTRAINT = re.compile(r"[@^~<>=!]")


class NamedDataset(NamedTuple):
    """``at``: where ``text`` stands in the document; ``holder[key]`` is it."""

    text: str
    at: FieldPath
    holder: Any
    key: Any


def named_datasets(data: Mapping[str, Any]) -> Iterator[NamedDataset]:
    """All that are named with a constraint. A bare name has none: it is what it was before data sets had versions."""
    yield from _of_section(data.get("evaluate"), ("evaluate",))
    sweep = data.get("sweep")
    if not isinstance(sweep, dict):
        return
    yield from _of_columns(sweep, ("sweep",))
    yield from _of_columns(sweep.get("grid"), ("sweep", "grid"))
    groups = sweep.get("zip")
    yield from _of_columns(groups, ("sweep", "zip"))
    for at, group in enumerate(groups if isinstance(groups, list) else ()):
        yield from _of_columns(group, ("sweep", "zip", at))


def _of_columns(columns: Any, at: FieldPath) -> Iterator[NamedDataset]:
    """Of a mapping of dotted paths to lists of values."""
    if not isinstance(columns, dict):
        return
    for row, value in enumerate(_list(columns.get("evaluate"))):
        yield from _of_section(value, (*at, "evaluate", row))
    values = columns.get("evaluate.dataset")
    for row, value in enumerate(_list(values)):
        if _constrained(value):
            yield NamedDataset(value, (*at, "evaluate.dataset", row), values, row)


def _of_section(section: Any, at: FieldPath) -> Iterator[NamedDataset]:
    if isinstance(section, dict) and _constrained(section.get("dataset")):
        yield NamedDataset(section["dataset"], (*at, "dataset"), section, "dataset")


def _constrained(value: Any) -> bool:
    return isinstance(value, str) and _CONSTRAINT.search(value) is not None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
