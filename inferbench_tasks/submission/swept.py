"""What stands under ``sweep`` as it was written: columns, each a dotted path with its values.

For what has to be known before a submission is validated: whatever is of another type is passed over, the schema tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from inferbench_tasks.problem import FieldPath
from inferbench_tasks.submission.base import SWEEP_KEYS


class Column(NamedTuple):
    """``at``: where it stands in the document; ``values``: the document's own list."""

    at: FieldPath
    path: str
    values: list[Any]


def columns_of(sweep: Any) -> Iterator[Column]:
    """All of the grid, whether under a key of its own or not, and of each group of ``zip``, in their order."""
    if not isinstance(sweep, dict):
        return
    yield from _of_group(("sweep",), sweep)
    yield from _of_group(("sweep", "grid"), sweep.get("grid"))
    for at, group in zip_groups(sweep):
        yield from _of_group(at, group)


def zip_groups(sweep: dict[str, Any]) -> list[tuple[FieldPath, Any]]:
    """Each group of columns that go together, with where it stands: a lone one needs no list around it."""
    groups = sweep.get("zip")
    if groups is None:
        return []
    if not isinstance(groups, list):
        return [(("sweep", "zip"), groups)]
    return [(("sweep", "zip", number), group) for number, group in enumerate(groups)]


def _of_group(at: FieldPath, group: Any) -> Iterator[Column]:
    if not isinstance(group, dict):
        return
    for path, values in group.items():
        if isinstance(path, str) and path not in SWEEP_KEYS and isinstance(values, list):
            yield Column((*at, path), path, values)
