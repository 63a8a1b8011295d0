"""What an unquoted YAML value means, without the surprises.

YAML 1.1 and 1.2 read ``on``, ``010``, ``1:30`` and ``2026-01-31`` differently, and people differ again.
Nothing is guessed here: such a value is refused with a word on how to write what is meant. Numbers,
``true``, ``false`` and ``null`` are read as in YAML 1.2; all else is text.
"""

from __future__ import annotations

import re

Scalar = str | int | float | bool | None

_NULL = {"", "~", "null", "Null", "NULL"}
_TRUE = {"true", "True", "TRUE"}
_FALSE = {"false", "False", "FALSE"}
_SWITCH = re.compile(r"yes|no|on|off", re.IGNORECASE)
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9_]+")
_OTHER_BASE = re.compile(r"[-+]?0([xX][0-9a-fA-F_]+|[bB][01_]+|[oO][0-7_]+)")
_BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt \t].*)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

#: Longer than any number that a field takes; Python's own limit on converting text is far above it.
_LONGEST_NUMBER = 40


class AmbiguousScalarError(ValueError):
    """The message says why, and how to write what is meant."""


def read_plain(text: str) -> Scalar:
    """The value of an unquoted scalar; raises AmbiguousScalarError."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if _SWITCH.fullmatch(text):
        switch = "true" if text.lower() in ("yes", "on") else "false"
        raise AmbiguousScalarError(
            f"unquoted {text} is text to some YAML readers and {switch} to others; "
            f"write '{text}' in quotes for text, or {switch}"
        )
    if text[0] in "+-.0123456789":
        return _read_number(text)
    return text


def _read_number(text: str) -> Scalar:
    """A number, or text that only starts like one."""
    if _NOT_FINITE.fullmatch(text):
        raise AmbiguousScalarError(
            f"{text} is no finite number; write a number, or '{text}' in quotes for text"
        )
    if len(text) > _LONGEST_NUMBER:
        if _FLOAT.fullmatch(text):
            raise AmbiguousScalarError(
                f"a number of {len(text)} characters; write at most {_LONGEST_NUMBER}, or quote it for text"
            )
        return text
    for pattern, why in (
        (_LEADING_ZERO, "with its leading zero is octal to some YAML readers and decimal to others"),
        (_OTHER_BASE, "is a number to some YAML readers and text to others"),
        (_BASE_60, "is a number in base 60 to some YAML readers and text to others"),
        (_DATE, "is a date to some YAML readers and text to others"),
    ):
        if pattern.fullmatch(text):
            advice = "" if pattern is _DATE else ", or a plain decimal number"
            raise AmbiguousScalarError(f"unquoted {text} {why}; write '{text}' in quotes for text{advice}")
    digits = text.replace("_", "")
    if _INTEGER.fullmatch(text):
        return int(digits)
    if _FLOAT.fullmatch(text):
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            raise AmbiguousScalarError(f"{text} is too large for a number")
        return number
    return text
