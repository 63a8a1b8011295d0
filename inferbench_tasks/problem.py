"""One thing that is wrong with a submission, and where."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

#: Where in a submission: keys and list indexes from the top.
FieldPath = tuple[str | int, ...]

#: Of a submission: more are only counted, and cost no more time than that.
MAX_PROBLEMS = 100
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.\-]{1,100}")
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """``resnet.yaml:12: serve.backend: unknown serving backend 'vlm'; known: onnxruntime, triton``.

    ``line`` counts from 1, None where there is no text; ``field`` is a dotted path, "" for the whole.
    """

    file: str
    line: int | None
    field: str
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.field}: {self.message}" if self.field else f"{place}: {self.message}"

    def as_dict(self) -> dict[str, Any]:
        """The problem as ``-o json`` prints it; values are None where they are not known."""
        return {"file": self.file, "line": self.line, "field": self.field, "message": self.message}


def dotted(path: FieldPath) -> str:
    """``("tags", 2)`` -> ``tags[2]``; a key that is no plain word is shown in quotes."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if _PLAIN_KEY.fullmatch(part) else show(part)
            text += f".{key}" if text else key
    return text


def show(value: Any) -> str:
    """A value as a message quotes it: short, on one line, without a character that a terminal would obey."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return "a list" if value else "an empty list"
    if isinstance(value, int) and value.bit_length() > 200:  # Python refuses to print the longest ones
        return "a whole number of more than 60 digits"
    text = repr(value[: _SHOWN_CHARACTERS + 1] if isinstance(value, str) else value)
    if len(text) > _SHOWN_CHARACTERS:
        text = text[: _SHOWN_CHARACTERS - 3] + "..."
        return text + "'" if isinstance(value, str) else text
    return text


def field_problems(error: ValidationError, whole: str = "", skipped: int = 0) -> list[str]:
    """``threads: Input should be a valid integer``: what pydantic found wrong, field by field, without the values.

    ``whole``: what is named where a problem is of no field; ``skipped``: so many parts of a field's path, as the name
    of a union's member.
    """
    wrong = error.errors(include_url=False, include_context=False, include_input=False)
    fields = (".".join(map(str, each["loc"][skipped:])) or whole for each in wrong)
    return [
        f"{field}: {each['msg']}" if field else each["msg"] for field, each in zip(fields, wrong, strict=True)
    ]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'rate_rps'?``, or nothing when nothing is near."""
    near = nearest(word, known)
    return f"; did you mean {near!r}?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, by spelling or as the start of a longer name."""
    if len(word) > 100:
        return None
    return _nearest(word, tuple(known))


@lru_cache(maxsize=4096)  # a millisecond each, and the jobs of a sweep have their mistakes in common
def _nearest(word: str, names: tuple[str, ...]) -> str | None:
    folded = {name.lower(): name for name in names}
    if match := get_close_matches(word.lower(), folded, n=1, cutoff=0.6):
        return folded[match[0]]
    longer = [n for n in names if len(word) >= 3 and (n.startswith(word + "_") or n.endswith("_" + word))]
    return longer[0] if len(longer) == 1 else None


def compact(value: Any) -> str:
    """A value on one line in YAML's flow style, short; for the points of a sweep."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
