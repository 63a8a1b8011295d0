"""W3C Trace Context's ``tracestate``: what each tracing system says beside ``traceparent``, which others carry on.

And OpenTelemetry's entry in it, ``ot=th:…``: with which probability a trace was chosen, so that whoever receives it can
tell how many it stands for (https://opentelemetry.io/docs/specs/otel/trace/tracestate-probability-sampling/).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

HEADER = "tracestate"
HEADER_BYTES = HEADER.encode()
#: W3C: at most so many entries; 512 characters are to be carried at least.
MOST_ENTRIES, MOST_BYTES = 32, 4096
#: Level 2's form of a key, which has level 1's in it; a value ends in no blank.
_ENTRY = re.compile(
    rb"([a-z0-9][a-z0-9_\-*/@]{0,255})=([\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e])"
)
#: Randomness and thresholds are of so many bits, the last ones of a trace id.
_BITS = 56
_DIGITS = _BITS // 4


def read_state(values: Sequence[bytes]) -> str | None:
    """The entries of a request's headers of that name in one line; None for what is none, which is to be ignored.

    Several headers are one list, in their order. Empty entries are allowed; a key that is there twice is not.
    """
    if sum(map(len, values)) > MOST_BYTES:
        return None
    entries = [entry for value in values for part in value.split(b",") if (entry := part.strip(b" \t"))]
    matches = [_ENTRY.fullmatch(entry) for entry in entries]
    keys = {match[1] for match in matches if match}
    if len(keys) != len(entries) or len(entries) > MOST_ENTRIES:
        return None
    return b",".join(entries).decode()


@cache
def one_in_state(one_in: int) -> str:
    """OpenTelemetry's entry of traces of which one in so many is chosen."""
    return f"ot=th:{f'{_threshold(one_in):0{_DIGITS}x}'.rstrip('0') or '0'}"


def is_chosen(trace_id: str, one_in: int) -> bool:
    """Whether that trace is one of the ``one_in``-th part: by the randomness of its id alone, as ``ot=th`` has it."""
    return int(trace_id[-_DIGITS:], 16) >= _threshold(one_in)


@cache
def _threshold(one_in: int) -> int:
    """Randomness below it is not chosen."""
    whole = 1 << _BITS
    return whole - round(whole / one_in)
