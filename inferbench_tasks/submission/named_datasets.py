"""Where a submission names a data set by its manifest: ``evaluate: {dataset: words@^1}``, under ``sweep`` too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from inferbench_tasks.problem import FieldPath
from inferbench_tasks.submission.swept import columns_of

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
    for column in columns_of(data.get("sweep")):
        if column.path == "evaluate":
            for row, section in enumerate(column.values):
                yield from _of_section(section, (*column.at, row))
        elif column.path == "evaluate.dataset":
            for row, value in enumerate(column.values):
                if _constrained(value):
                    yield NamedDataset(value, (*column.at, row), column.values, row)


def _of_section(section: Any, at: FieldPath) -> Iterator[NamedDataset]:
    if isinstance(section, dict) and _constrained(section.get("dataset")):
        yield NamedDataset(section["dataset"], (*at, "dataset"), section, "dataset")


def _constrained(value: Any) -> bool:
    return isinstance(value, str) and _CONSTRAINT.search(value) is not None
