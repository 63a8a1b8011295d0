"""How much of a server's answer is taken: a server under test is a stranger, and may send without end."""

from __future__ import annotations

import os

from inferbench_tasks.errors import InputError

#: Megabytes of one answer that are taken at least; more where the model's outputs are known to be larger.
MAX_ANSWER_MB = "INFERBENCH_MAX_ANSWER_MB"
_DEFAULT_MB = 16
#: A header block, a trailer, an answer's status line and headers.
HEAD_BYTES = 64 * 1024
#: The most characters of a number as text in JSON, with what separates it from the next.
_NUMBER_CHARACTERS = 32
#: An answer may be so many times as large as the outputs are as text.
_TIMES = 4
#: Digits of a figure that a server gives: more is no int64.
MAX_DIGITS = 18


def answer_bytes(elements: int = 0) -> int:
    """The most bytes of an answer whose outputs have so many elements, 0 where that is not known.

    InputError where the setting is no size.
    """
    return max(_least_bytes(), _TIMES * _NUMBER_CHARACTERS * elements)


def _least_bytes() -> int:
    text = os.environ.get(MAX_ANSWER_MB, "")
    if not text:
        return _DEFAULT_MB << 20
    if not text.isdecimal() or not 1 <= int(text[:9]) <= 65536:
        raise InputError(f"{MAX_ANSWER_MB} is {text[:40]!r}; allowed are whole megabytes from 1 to 65536")
    return int(text) << 20


def too_large(limit_bytes: int) -> str:
    """What is said of an answer that was not read to its end."""
    return (
        f"the answer has more than {limit_bytes:,} bytes, which are more than the model's outputs need; "
        f"{MAX_ANSWER_MB} (megabytes) allows more"
    )
