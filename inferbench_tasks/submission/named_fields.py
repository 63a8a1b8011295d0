"""Where a submission names something in one field of a section, under ``sweep`` too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from inferbench_tasks.problem import FieldPath
from inferbench_tasks.submission.swept import columns_of


class NamedField(NamedTuple):
    """``at``: where ``text`` stands in the document; ``holder[key]`` is it."""

    text: str
    at: FieldPath
    holder: Any
    key: Any


def named_fields(
    data: Mapping[str, Any], section: str, field: str, is_name: Callable[[str], bool] = bool
) -> Iterator[NamedField]:
    """All texts of ``section.field`` that are names: in the section, in swept sections, and as a swept field."""

    def in_section(values: Any, at: FieldPath) -> Iterator[NamedField]:
        if isinstance(values, dict) and is_text(values.get(field)):
            yield NamedField(values[field], (*at, field), values, field)

    def is_text(value: Any) -> bool:
        return isinstance(value, str) and is_name(value)

    yield from in_section(data.get(section), (section,))
    for column in columns_of(data.get("sweep")):
        if column.path == section:
            for row, values in enumerate(column.values):
                yield from in_section(values, (*column.at, row))
        elif column.path == f"{section}.{field}":
            for row, value in enumerate(column.values):
                if is_text(value):
                    yield NamedField(value, (*column.at, row), column.values, row)
