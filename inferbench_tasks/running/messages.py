"""What a stage's process may say, a line each: its progress, and one answer. A stranger's code may have written it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

#: A line is read up to so many bytes; a real answer has a few thousand.
MOST_BYTES = 64 << 20
#: Of sources without bytecode; PyTorch and TensorFlow together have about 10,000.
MOST_LACKING = 20_000
#: Of a progress or an error.
_MOST_TEXT = 20_000


@dataclass(frozen=True, slots=True)
class Progress:
    """As ``stages.base.Progress`` takes it."""

    amount: float
    total: float | None
    text: str


@dataclass(frozen=True, slots=True)
class Answer:
    """``document``: an ``output``, or an ``error``; ``lacking``: sources that have no bytecode."""

    document: dict[str, Any]
    lacking: list[str]


#: A text says why it is none.
Message = Progress | Answer | str


def told(pipe: IO[bytes], most_bytes: int = MOST_BYTES) -> Iterator[Message]:
    """What comes, until the other side is closed; nothing after what is no message."""
    while line := pipe.readline(most_bytes + 1):
        if len(line) > most_bytes:
            yield f"a line of more than {most_bytes:,} bytes"
            return
        message = read(line)
        yield message
        if isinstance(message, str):
            return


def read(line: bytes) -> Message:
    """The message of a line, or why it is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return "a line that is no JSON"
    if not isinstance(message, dict):
        return "a line that is no object"
    if "progress" in message:
        return _progress(message["progress"])
    lacking = message.pop("lacking", [])
    if not isinstance(lacking, list) or not all(isinstance(source, str) for source in lacking):
        return "sources without bytecode that are no list of texts"
    if why := _no_answer(message):
        return why
    return Answer(message, lacking[:MOST_LACKING])


def _progress(value: Any) -> Message:
    match value:
        case [amount, total, str() as text] if _is_number(amount) and (total is None or _is_number(total)):
            return Progress(amount, total, text[:_MOST_TEXT])
    return "a progress that is not two numbers and a text"


def _no_answer(message: dict[str, Any]) -> str:
    if ("output" in message) == ("error" in message):
        return "an answer that is neither an output nor an error"
    if "output" in message:
        return "" if isinstance(message["output"], dict) else "an output that is no object"
    error = message["error"]
    if not isinstance(error, dict):
        return "an error that is no object"
    if not isinstance(error.get("type"), str) or not isinstance(error.get("message"), str):
        return "an error without a type and a message"
    if not isinstance(error.get("field"), str | None):
        return "an error whose field is no text"
    return ""


def _is_number(value: Any) -> bool:
    """Neither a bool, nor what has no end or is no number, nor an integer that no float holds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
