"""The user's JSON files: read whole, and their entries taken with the place of each, so that an error can name it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from inferbench_tasks.errors import InputError

#: COCO's largest file of instances has 448 MB.
MAX_BYTES = 1 << 30


def read(path: Path, field: str) -> dict[str, Any]:
    """The object in a file; InputError for anything else."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path.name} has more than {MAX_BYTES:,} bytes", field=field)
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path.name} can't be read: {error}", field=field) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path.name}: no JSON: {error}", field=field) from error
    if not isinstance(document, dict):
        raise InputError(f"{path.name}: no object, but {type(document).__name__}", field=field)
    return document


def entries(
    holder: Mapping[str, Any], key: str, name: str, field: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object of the list under ``key`` with its place, "NAME: KEY[3]"; below another entry "PLACE.KEY[3]"."""
    items = holder.get(key)
    if not isinstance(items, list):
        raise InputError(f"{name}: {key} must be a list; got {_short(items)}", field=field)
    joint = "." if name.endswith("]") else ": "
    for at, entry in enumerate(items):
        place = f"{name}{joint}{key}[{at}]"
        if not isinstance(entry, dict):
            raise InputError(f"{place}: must be an object; got {_short(entry)}", field=field)
        yield place, entry


def whole(entry: Mapping[str, Any], key: str, place: str, field: str) -> int:
    """A whole number of an entry."""
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{place}: {key} must be a whole number; got {_short(value)}", field=field)
    return value


def text(entry: Mapping[str, Any], key: str, place: str, field: str) -> str:
    """A text of an entry that is more than white space."""
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{place}: {key} must be a text; got {_short(value)}", field=field)
    return value


def number(value: Any) -> float | None:
    """A finite number; None for anything else (JSON as Python reads it has NaN, and whole numbers of any size)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if math.isfinite(as_float) else None


def _short(value: Any) -> str:
    return "nothing" if value is None else repr(value)[:80]
