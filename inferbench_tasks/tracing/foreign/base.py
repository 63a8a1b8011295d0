"""What a reader of another tool's trace hands on: spans as told, and what was found about them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import orjson

from inferbench_tasks.errors import InputError
from inferbench_tasks.tracing.spans import LINKS, SPAN_LEVELS, AnyLevel

#: Of a file, packed or not.
MAX_BYTES = 256 << 20
MAX_SPANS = 1_000_000
#: Lists and mappings within each other in a span's attributes.
MAX_DEPTH = 20
#: Times are kept as signed 64-bit nanoseconds.
MAX_NS = 2**63 - 1
#: So many places are told of each kind of finding.
_FIRST = 5
#: Names that stored attributes have a meaning for; a foreign one of that name gets another.
_OURS = frozenset({"span_id", "otlp", "chrome", LINKS})


class Told(NamedTuple):
    """One span. ``place``: which of the file it is, from 1. ``parent_id``: empty of one without a parent.

    ``attributes``: JSON, for a million of them are held at once.
    """

    place: int
    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start_ns: int
    end_ns: int
    level: AnyLevel
    type: str
    attributes: str


@dataclass
class Findings:
    """What is not as it should be and did not keep a file from being taken in: counted, the first with their place."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, what: str, where: str) -> None:
        """One more of a kind."""
        self.counts[what] += 1
        if len(self.first[what]) < _FIRST:
            self.first[what].append(where[:300])

    def as_rows(self) -> list[dict[str, Any]]:
        """As they are stored, the most frequent first."""
        return [
            {"what": what, "count": count, "first": self.first[what]}
            for what, count in self.counts.most_common()
        ]


@dataclass
class Foreign:
    """A file's spans as its reader goes through them. ``clock``: ``unix``, or ``file`` where only differences count."""

    form: str
    clock: Literal["unix", "file"]
    spans: Iterator[Told]
    findings: Findings = field(default_factory=Findings)
    #: Who sent the spans, as far as the file says; complete when all spans were read.
    services: set[str] = field(default_factory=set)


def require_room(count: int) -> None:
    """InputError beyond the most spans of a file."""
    if count > MAX_SPANS:
        raise InputError(f"more than {MAX_SPANS:,} spans; take a part of it, for instance fewer traces")


def level_of(attributes: dict[str, Any]) -> tuple[AnyLevel, str]:
    """Level and type that an export of ours wrote into a span; ``foreign`` and none of another's."""
    level = attributes.get("inferbench.level")
    if level not in SPAN_LEVELS:
        return "foreign", ""
    return level, str(attributes.pop("inferbench.type", ""))


def stored_attributes(attributes: dict[str, Any], **ours: Any) -> str:
    """JSON of a span's attributes, with what we say of it."""
    theirs = {f"attribute {name}" if name in _OURS else name: value for name, value in attributes.items()}
    theirs.pop("inferbench.level", None)
    # As text: the parser's bytes keep the kilobyte that they were written into.
    return orjson.dumps({**theirs, **ours}, option=orjson.OPT_SORT_KEYS).decode()


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it; numbers that it lacks (NaN, beyond 64 bits) become text. InputError if nested deeper."""
    if isinstance(value, (dict, list)) and depth >= MAX_DEPTH:
        raise InputError(f"an attribute is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        return {str(name): plain(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        return [plain(each, depth + 1) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not -MAX_NS <= value <= MAX_NS:
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    return value


def text(value: Any) -> str:
    """A plain value in words, bounded; of a list or mapping only what it is: it may be nested a thousand times."""
    if value is None:
        return ""
    return type(value).__name__ if isinstance(value, (dict, list)) else str(value)[:200]
