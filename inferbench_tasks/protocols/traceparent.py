"""W3C Trace Context: which trace a request is part of (https://www.w3.org/TR/trace-context/, level 1)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from inferbench_tasks.protocols import tracestate

HEADER = "traceparent"
HEADER_BYTES = HEADER.encode()
#: Later versions may have more behind the flags; what level 1 knows of them stays in front.
_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class TraceContext(NamedTuple):
    """``trace_id``: 32 hex digits; ``span_id``: 16, of the span that asks; ``sampled``: whether to trace it.

    ``state``: the entries of its ``tracestate``; empty of none, and of one that is none (``state_ignored``).
    """

    trace_id: str
    span_id: str
    sampled: bool = True
    state: str = ""
    state_ignored: bool = False

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


def parse(value: bytes) -> TraceContext | None:
    """The context of a header's value; None for one that is not one, which is to be ignored."""
    match = _FORM.fullmatch(value)
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == b"ff" or (version == b"00" and more is not None):
        return None
    if not trace_id.strip(b"0") or not span_id.strip(b"0"):
        return None
    return TraceContext(trace_id.decode(), span_id.decode(), bool(int(flags, 16) & 1))


#: Those of a load are mostly alike.
_read_state = lru_cache(maxsize=64)(tracestate.read_state)


def parse_all(values: Sequence[bytes], states: Sequence[bytes] = ()) -> TraceContext | None:
    """The context of a request by all its headers of that name; None of several, which contradict each other.

    ``states``: its headers ``tracestate``. They count only with a context, and a context stands without them (W3C).
    """
    context = parse(values[0]) if len(values) == 1 else None
    if context is None or not states:
        return context
    state = _read_state(tuple(states))
    return TraceContext(context.trace_id, context.span_id, context.sampled, state or "", state is None)


def context_of(seed: str, number: int) -> TraceContext:
    """The context of one request of a load, by its sample or its number: the same give the same, others others."""
    digits = _digits(seed, number)
    return TraceContext(digits[:32], digits[32:48])


def one_in_context(seed: str, number: int, one_in: int) -> TraceContext | None:
    """The context of a request if it is one of the ``one_in``-th part that is traced, by chance; else None.

    Not each ``one_in``-th: what recurs in a load (a batch, a user's turn) would always or never be met.
    """
    digits = _digits(seed, number)
    if not tracestate.is_chosen(digits[:32], one_in):
        return None
    return TraceContext(digits[:32], digits[32:48], state=tracestate.one_in_state(one_in))


def _digits(seed: str, number: int) -> str:
    """A trace's id and then its first span's, as hexadecimal digits; more follow, which nobody needs."""
    return hashlib.sha256(f"{seed}\n{number}".encode()).hexdigest()


def metadata_of(context: TraceContext) -> tuple[tuple[str, str], ...]:
    """The same as metadata of gRPC, or as headers of who writes requests by itself."""
    state = ((tracestate.HEADER, context.state),) if context.state else ()
    return ((HEADER, str(context)), *state)


def with_header(wire: bytes, context: TraceContext) -> bytes:
    """A prebuilt request of HTTP/1.1 with the context behind its first line."""
    return with_headers(wire, metadata_of(context))


def with_headers(wire: bytes, metadata: Sequence[tuple[str, str]]) -> bytes:
    """The same with these behind its first line."""
    line, end, rest = wire.partition(b"\r\n")
    headers = [f"{name}: {value}\r\n".encode() for name, value in metadata]
    return b"".join([line, end, *headers, rest])
