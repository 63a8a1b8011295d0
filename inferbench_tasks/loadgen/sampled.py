"""A share of a load's requests, chosen before they leave, each in a trace of its own; others are sent as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from inferbench_tasks.clients.base import Payload
from inferbench_tasks.protocols.traceparent import TraceContext, metadata_of, one_in_context, with_header

_NO_NUMBERS = range(0)
#: What chosen requests that are made ahead may take: each has the bytes of its request once more.
_AHEAD_BYTES = 64 * 2**20
#: More than any number of a request: senders take ``payloads[number % len(payloads)]``, which is then its number.
_BEYOND_ALL = 1 << 62


def in_context(payload: Payload, context: TraceContext, *, over_http: bool) -> Payload:
    """The same prebuilt request in that context; its body is not touched."""
    wire = with_header(payload.wire, context) if over_http else payload.wire
    return Payload(wire, payload.sample_index, payload.batch_size, metadata_of(context))


class SampledPayloads(Sequence[Payload]):
    """The requests of a load by their numbers: each is one of the few that were built, sent again and again; one of
    ``one_in``, drawn by its number, is in a trace of its own.

    A request that is sent twice is in two traces, which one context in its prebuilt bytes could not say.

    ``ahead``: numbers for which it is drawn now, and, within a bound of bytes, put into its context, for it takes a
    sender more than all else that it does for a request. Others are drawn as they leave, which holds up those too that
    are not chosen, by some microseconds.
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
        self._first = ahead.start
        #: Of each number ahead what is sent, or the context that it is to be put into then.
        self._ahead: list[Payload | TraceContext] = []
        room = _AHEAD_BYTES
        for number in ahead:
            payload = self._plain(number)
            context = one_in_context(seed, number, one_in)
            if context is None:
                self._ahead.append(payload)
            elif room < len(payload.wire):
                self._ahead.append(context)
            else:
                # Over gRPC the bytes are those of the request itself.
                room -= len(payload.wire) if over_http else 0
                self._ahead.append(in_context(payload, context, over_http=over_http))

    @property
    def made(self) -> list[Payload] | None:
        """Those ahead as a list by their numbers; None if these don't begin with 0, or some are to be made then."""
        made = [each for each in self._ahead if isinstance(each, Payload)]
        return made if self._first == 0 and len(made) == len(self._ahead) else None

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
        if 0 <= (at := number - self._first) < len(self._ahead):
            known = self._ahead[at]
            if isinstance(known, Payload):
                return known
            context: TraceContext | None = known
        else:
            context = one_in_context(self._seed, number, self._one_in)
        payload = self._plain(number)
        return payload if context is None else in_context(payload, context, over_http=self._over_http)

    def _plain(self, number: int) -> Payload:
        return self._built[number % len(self._built)]
