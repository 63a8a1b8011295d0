"""Class names and class numbers of the user's labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.errors import InputError

#: Beside the data: a class on each line, in the model's own order.
NAMES_FILE = "classes.txt"
_FIELD = "evaluate.path"
_MAX_CLASSES = 100_000


class Numbered(NamedTuple):
    """``ids``: a class for each label. ``names``: by id, () of plain numbers. ``by_name``: ids follow sorted names."""

    ids: NDArray[np.int64]
    names: tuple[str, ...]
    by_name: bool


def numbered(labels: Sequence[str], places: Sequence[str], folder: Path) -> Numbered:
    """Labels as written -> class ids.

    By ``classes.txt`` in ``folder`` if there is one; whole numbers are ids themselves; other names have ids in the
    sorted order of the names that occur. A number that is no whole one ("3.0", " 3") is refused: as names they would be
    sorted by their letters, and be other classes than they say. ``places``: where each label stands ("a.csv:3"), for
    what is said of it.
    """
    known = listed(folder / NAMES_FILE)
    if known:
        ids = {name: at for at, name in enumerate(known)}
        for label, place in zip(labels, places, strict=True):
            if label not in ids:
                raise InputError(f"{place}: {label!r} is no class of {NAMES_FILE}", field=_FIELD)
        return Numbered(
            np.array([ids[label] for label in labels], dtype=np.int64), tuple(known), by_name=False
        )
    if all(label.isascii() and label.isdigit() for label in labels):
        for label, place in zip(labels, places, strict=True):
            if len(label.lstrip("0")) > len(str(_MAX_CLASSES)) or int(label) >= _MAX_CLASSES:
                raise InputError(f"{place}: class {label[:20]} is not below {_MAX_CLASSES:,}", field=_FIELD)
        return Numbered(np.array([int(label) for label in labels], dtype=np.int64), (), by_name=False)
    for label, place in zip(labels, places, strict=True):
        if not label.strip():
            raise InputError(f"{place}: the label is empty", field=_FIELD)
        if _is_number(label) and not (label.isascii() and label.isdigit()):
            raise InputError(
                f"{place}: the label {label[:40]!r} is no whole number from 0; write 3 for 3.0, or, where it is a "
                f"class's name, all names into {NAMES_FILE}",
                field=_FIELD,
            )
    names = sorted(set(labels))
    ids = {name: at for at, name in enumerate(names)}
    return Numbered(np.array([ids[label] for label in labels], dtype=np.int64), tuple(names), by_name=True)


def _is_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def listed(path: Path) -> list[str]:
    """The classes of such a file in their order, [] where there is none; InputError with its line."""
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} can't be read: {error}", field=_FIELD) from error
    first: dict[str, int] = {}
    for line, name in enumerate((text.strip() for text in lines), 1):
        if not name:
            continue
        if name in first:
            raise InputError(f"{path.name}:{line}: {name!r} stands in line {first[name]} too", field=_FIELD)
        first[name] = line
    return list(first)
