"""A share of a load's requests, chosen before they leave, each in a trace of its own; others are sent as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import overload

from inferbench_tasks.clients.base import Payload
from inferbench_tasks.protocols.traceparent import TraceContext, metadata_of, one_in_context, with_header

_NO_NUMBERS = range(0)
#: More than any number of a request: senders take ``payloads[number % len(payloads)]``, which is then its number.
_BEYOND_ALL = 1 << 62


def in_context(payload: Payload, context: TraceContext, *, over_http: bool) -> Payload:
    """The same prebuilt request in that context; its body is not touched."""
    wire = with_header(payload.wire, context) if over_http else payload.wire
    return replace(payload, wire=wire, metadata=metadata_of(context))


class SampledPayloads(Sequence[Payload]):
    """The requests of a load by their numbers: each is one of the few that were built, sent again and again; one of
    ``one_in``, drawn by its number, is in a trace of its own.

    A request that is sent twice is in two traces, which one context in its prebuilt bytes could not say.

    ``ahead``: numbers for which it is drawn now. For others it is as they leave, which holds up those too that are not
    chosen, by some microseconds.
    """

    def __init__(
        self,
        built: Sequence[Payload],
        seed: str,
        one_in: int,
        *,
        over_http: bool,
        ahead: range = _NO_NUMBERS,
    ) -> None:
        self._built = built
        self._seed = seed
        self._one_in = one_in
        self._over_http = over_http
        self._ahead = ahead
        contexts = ((number, one_in_context(seed, number, one_in)) for number in ahead)
        self._contexts = {number: context for number, context in contexts if context is not None}

    def __len__(self) -> int:
        return _BEYOND_ALL

    @overload
    def __getitem__(self, number: int) -> Payload: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Payload]: ...

    def __getitem__(self, number: int | slice) -> Payload | Sequence[Payload]:
        """Of a slice those that were built, as what looks at some of them before the load needs."""
        if isinstance(number, slice):
            return self._built[number]
        payload = self._built[number % len(self._built)]
        if number in self._ahead:
            context = self._contexts.get(number)
        else:
            context = one_in_context(self._seed, number, self._one_in)
        return payload if context is None else in_context(payload, context, over_http=self._over_http)
