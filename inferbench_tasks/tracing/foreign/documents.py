"""JSON of a file from outside: bounded before it is parsed, and errors with line and column."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

from inferbench_tasks.errors import InputError

#: Values and mappings of a document: each takes up to 100 bytes of memory and more when it is read.
MOST_VALUES = 30_000_000
#: A whole number of 20 digits or more, or of 19 below zero, may not fit into 64 bits (those end at -2^63 and 2^64): the
#: fast parser would make a rounded one of it.
_DIGITS, _LONG = bytes.maketrans(b"123456789", b"0" * 9), (b"0" * 20, b"-" + b"0" * 19)
_LONG_INTEGER = re.compile(rb"(?:^|[\[,:\s])(?:-[0-9]|[0-9]{2})[0-9]{18,}(?=$|[\s,\]}])")


def documents(content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """The mappings of a file, with their place: one, or one on each line."""
    first, _, rest = content.partition(b"\n")
    if not (first.rstrip().endswith(b"}") and rest.strip() and _parses(first)):
        yield "", _mapping(parsed(content), "the file")
        return
    start, number = 0, 0
    while start < len(content):
        number += 1
        end = content.find(b"\n", start)
        line = content[start : end if end >= 0 else len(content)]
        start = end + 1 if end >= 0 else len(content)
        if line.strip():
            yield f"line {number}", _mapping(parsed(line, number), f"line {number}")


def parsed(content: bytes, line: int | None = None) -> Any:
    """The value of JSON text; ``line``: which of a file it is. InputError with the place of what is wrong.

    The parser's own bound on nesting (1,024) is an error like others. Whole numbers keep all of their digits.
    """
    if (values := content.count(b",") + content.count(b"{") + content.count(b"[")) > MOST_VALUES:
        raise InputError(f"about {values:,} values, allowed are {MOST_VALUES:,}; take a part of it")
    try:
        # A file of 256 MiB is not searched by the expression unless it has so many digits in a row at all.
        digits = content.translate(_DIGITS)
        if not any(row in digits for row in _LONG) or not _LONG_INTEGER.search(content):
            return orjson.loads(content)
        orjson.loads(content)  # which is the stricter one
        return json.loads(content)
    except orjson.JSONDecodeError as error:
        place = f"line {line or error.lineno}, column {error.colno}"
        cut = "; the file ends there: it is cut off" if error.pos >= len(content.rstrip()) - 1 else ""
        raise InputError(f"{place}: no JSON: {error.msg}{cut}") from error
    except RecursionError as error:
        raise InputError(
            "JSON that is nested too deeply to be read with all digits of its numbers"
        ) from error


def _parses(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{where} is no mapping; allowed is OTLP's `resourceSpans`")
    return value
