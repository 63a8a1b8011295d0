"""The side that is measured: it tells moments and exchanges streams, with one peer that knows the secret."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from inferbench_tasks import settings
from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.errors import InputError
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.invitation import Invitation, numeric
from inferbench_tasks.networks.links.strangers import Strangers
from inferbench_tasks.timing.epoch import epoch_offset

_LONGEST_STREAM_MS = 60_000
NO_MORE: Mapping[bytes, Callable[[], str]] = MappingProxyType({})
#: What answers questions in words.
Answering = Callable[[str], bytes]
#: Peers that have not been looked at yet.
_BACKLOG = 8


class FarSide:
    """Listens on one address from its making on. The secret counts once: after a peer that knew it, nobody is heard."""

    def __init__(self, address: str, port: int, host: str, home: str) -> None:
        address = numeric(address)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            self._listener = socket.create_server((address, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            raise InputError(f"{address} port {port} can't be listened on: {error.strerror}.") from error
        self.invitation = Invitation.drawn(address, self._listener.getsockname()[1])
        self._about = LinkEnd(host=host, home=home, address=address, boot_id=settings.boot_id())

    def __enter__(self) -> FarSide:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def serve(
        self,
        patience_s: float,
        more: Mapping[bytes, Callable[[], str]] = NO_MORE,
        answering: Answering | None = None,
    ) -> str | None:
        """Answer one peer until it is done; its address, or None where none came within ``patience_s``.

        ``more``: further orders, each answered with a text; ``answering``: who is asked in words, which it answers
        with bytes. ConnectionError where the peer went away in the middle.
        """
        with Strangers(self._listener, self.invitation.secret).until_known(patience_s) as known:
            if known is None:
                return None
            connection, peer = known
            self._listener.close()
            try:
                self._answer(connection, more, answering)
            except OSError as error:
                raise ConnectionError(
                    f"{peer} went away in the middle of its measurement: {error}"
                ) from error
            return peer

    def _answer(
        self,
        connection: socket.socket,
        more: Mapping[bytes, Callable[[], str]],
        answering: Answering | None,
    ) -> None:
        wire.send_text(connection, self._about.model_dump_json())
        while True:
            connection.settimeout(
                None
            )  # a load may last for hours; a host that is gone is noticed by keepalives
            order = wire.receive(connection, 1)
            connection.settimeout(wire.TIMEOUT_S)
            if order == wire.TIME:
                arrived_ns = time.monotonic_ns()
                connection.sendall(wire.PAIR.pack(arrived_ns, time.monotonic_ns()))
            elif order == wire.EPOCH:
                epoch = epoch_offset()
                connection.sendall(wire.PAIR.pack(epoch["offset_ns"], epoch["error_ns"]))
            elif order == wire.UP:
                counted = wire.receive_stream(connection)
                connection.sendall(wire.PAIR.pack(counted.size, counted.duration_ns))
            elif order == wire.DOWN:
                (duration_ms,) = wire.LENGTH.unpack(wire.receive(connection, wire.LENGTH.size))
                wire.send_stream(connection, min(duration_ms, _LONGEST_STREAM_MS) / 1e3)
            elif order == wire.QUIT:
                return
            elif order in more:
                wire.send_text(connection, more[order]())
            elif order == wire.ASK and answering is not None:
                wire.send_bytes(connection, answering(wire.receive_text(connection)))
            else:
                raise ConnectionError(
                    f"it gave an order that nobody knows: {json.dumps(order.decode('latin-1'))}"
                )
