"""Traces as JSON Lines: an object of each request, as Mooncake's; says which line is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from inferbench_tasks.errors import InputError

#: The column of moments in Mooncake's traces, which are in ms.
MOONCAKE_COLUMN, MOONCAKE_UNIT = "timestamp", "ms"
#: A line that is longer is no request.
_LONGEST_LINE = 4 << 20


def read_field(file: Path, path: str, field: str, most: int) -> tuple[list[Any], list[int]]:
    """A field of each line, and the lines that have one, from 1; reading stops beyond ``most``. InputError else."""
    values, numbers = [], []
    with open(file, "rb") as lines:
        number = 0
        while line := lines.readline(_LONGEST_LINE + 1):
            number += 1
            if len(line) > _LONGEST_LINE:
                raise InputError(f"{path}, line {number}: longer than {_LONGEST_LINE:,} bytes")
            if not line.strip():
                continue
            try:
                document = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise InputError(f"{path}, line {number}: no JSON: {error}") from error
            if not isinstance(document, dict) or field not in document:
                has = ", ".join(map(repr, list(document)[:20])) if isinstance(document, dict) else "no object"
                raise InputError(f"{path}, line {number}: no {field!r} in it; it has: {has}")
            values.append(document[field])
            numbers.append(number)
            if len(values) > most:
                break
    return values, numbers


def first_fields(file: Path, path: str) -> list[str]:
    """The names in the first line."""
    with open(file, "rb") as lines:
        for line in iter(lambda: lines.readline(_LONGEST_LINE), b""):
            if line.strip():
                try:
                    document = orjson.loads(line)
                except orjson.JSONDecodeError as error:
                    raise InputError(f"{path}: its first line is no JSON: {error}") from error
                return list(document) if isinstance(document, dict) else []
    return []


def numbers(file: Path, path: str, field: str, most: int) -> list[float | int]:
    """A field that has a number in every line; InputError with the line that has none."""
    values, lines = read_field(file, path, field, most)
    for value, line in zip(values, lines, strict=True):
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= 2**63:
            raise InputError(f"{path}, line {line}: {field} is {str(value)[:60]!r}, no number")
    return values
