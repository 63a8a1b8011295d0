"""Patterns with ``*`` and ``?`` as regular expressions that never go back: hostile ones cost no more than others."""

from __future__ import annotations

import re

from inferbench_tasks.errors import InputError

MAX_PATTERN_CHARACTERS = 200
MAX_WILDCARDS = 8
#: Not Unicode's rules for classes of characters, of which no pattern has any: MongoDB finds a pattern's beginning in an
#: index only without that flag, which Python sets otherwise.
_FLAGS = re.DOTALL | re.ASCII


def is_glob(text: str) -> bool:
    """Whether a text is a pattern and not a value."""
    return "*" in text or "?" in text


def compile_glob(text: str, field: str) -> re.Pattern[str]:
    """A whole text's pattern, for Python and for MongoDB: ``*`` any characters, ``?`` one, the rest stands for itself.

    Of each part between two ``*`` the first place that fits is taken, and kept (an atomic group, ``(?>...)``): a later
    one can't help, for what follows may begin anywhere behind it. So a text of n characters is matched in at most
    n x m steps by a pattern of m, where a regular expression that may go back takes up to n**m. ``field`` is named
    by the InputError for a pattern that is too long.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        raise InputError(
            f"{field}: at most {MAX_PATTERN_CHARACTERS} characters in a pattern, these are {len(text)}"
        )
    first, *others = re.split(r"\*+", text)
    if text.count("*") > MAX_WILDCARDS:
        raise InputError(f"{field}: at most {MAX_WILDCARDS} * in a pattern")
    if not others:
        return re.compile(f"^{_part(first)}$", _FLAGS)
    *between, last = others
    middle = "".join(f"(?>.*?{_part(part)})" for part in between if part)
    return re.compile(f"^{_part(first)}{middle}.*{_part(last)}$", _FLAGS)


def _part(text: str) -> str:
    return "".join("." if character == "?" else re.escape(character) for character in text)
