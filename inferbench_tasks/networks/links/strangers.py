"""Who comes to a listener, until one shows that it knows the secret: several at once, each for a few seconds in all.

Whoever reaches the port may be slow, byte by byte or for ever. It keeps a place for ``GREETING_S``, however it spends
them, and nobody else waits for it; where all places are taken, who has had his longest makes room.
"""

from __future__ import annotations

import logging
import secrets
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from inferbench_tasks.networks.links import wire

log = logging.getLogger(__name__)

#: Of these one that knows the secret needs its place for a round trip.
PLACES = 64
_PAUSE_S = 0.1


@dataclass(slots=True)
class _Stranger:
    """One that was greeted, and has answered so much."""

    connection: socket.socket
    peer: str
    deadline: float
    nonce: bytes = field(default_factory=lambda: secrets.token_bytes(wire.NONCE_BYTES))
    answer: bytearray = field(default_factory=bytearray)


class Strangers:
    """Those of one listener. ``secret``: what lets one in."""

    def __init__(self, listener: socket.socket, secret: bytes) -> None:
        self._listener, self._secret = listener, secret
        self._greeted: dict[socket.socket, _Stranger] = {}
        """The one that came first is the first."""

    @contextmanager
    def until_known(self, patience_s: float) -> Iterator[tuple[socket.socket, str] | None]:
        """The first that knows the secret, with its address; None where none came within ``patience_s``. All others
        are let go, and whoever it is once this ends.
        """
        known: _Stranger | None = None
        with selectors.DefaultSelector() as selector:
            self._listener.setblocking(False)
            selector.register(self._listener, selectors.EVENT_READ)
            try:
                known = self._wait(selector, time.monotonic() + patience_s)
            finally:
                for stranger in list(self._greeted.values()):
                    if stranger is not known:
                        self._let_go(
                            selector, stranger, "another one was known" if known else "nobody was known"
                        )
        try:
            yield (known.connection, known.peer) if known else None
        finally:
            if known:
                known.connection.close()

    def _wait(self, selector: selectors.BaseSelector, deadline: float) -> _Stranger | None:
        while (now := time.monotonic()) < deadline:
            for stranger in [one for one in self._greeted.values() if one.deadline <= now]:
                self._let_go(selector, stranger, f"it did not greet within {wire.GREETING_S:g} s")
            first = next(iter(self._greeted.values()), None)
            until = min(deadline, first.deadline) if first else deadline
            for key, _ in selector.select(max(0.0, until - now)):
                if key.fileobj is self._listener:
                    self._greet(selector)
                    continue
                heard: _Stranger = key.data
                if self._knows(selector, heard):
                    return heard
        return None

    def _greet(self, selector: selectors.BaseSelector) -> None:
        try:
            connection, (peer, *_) = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # it went before it was looked at
            return
        except OSError as error:  # no more files, say: it stays in the queue, and would be seen at once again
            log.warning("can't take a connection: %s", error)
            time.sleep(_PAUSE_S)
            return
        stranger = _Stranger(connection, str(peer), time.monotonic() + wire.GREETING_S)
        self._greeted[connection] = stranger
        selector.register(connection, selectors.EVENT_READ, stranger)
        try:
            wire.prepare(connection)
            connection.setblocking(False)
            if connection.send(greeting := wire.greeting(stranger.nonce)) < len(greeting):
                raise ConnectionError("it takes no greeting")
        except OSError as error:
            self._let_go(selector, stranger, str(error))
        if len(self._greeted) > PLACES:
            self._let_go(selector, next(iter(self._greeted.values())), f"{PLACES} others came after it")

    def _knows(self, selector: selectors.BaseSelector, stranger: _Stranger) -> bool:
        """Take what it says; whether it has shown that it knows the secret, and was shown the same."""
        if stranger.connection not in self._greeted:  # let go since it was seen to say something
            return False
        try:
            said = stranger.connection.recv(wire.ANSWER_BYTES - len(stranger.answer))
            if not said:
                raise ConnectionError("it closed the connection")
            stranger.answer += said
            if len(stranger.answer) < wire.ANSWER_BYTES:
                return False
            proof = wire.proof_for(self._secret, stranger.nonce, bytes(stranger.answer))
            if proof is None:
                log.warning("refused peer=%s: it does not know the secret", stranger.peer)
                self._let_go(selector, stranger, "it does not know the secret")
                return False
            stranger.connection.settimeout(wire.TIMEOUT_S)
            stranger.connection.sendall(proof)
        except BlockingIOError:  # seen without cause: it has said nothing more
            return False
        except OSError as error:
            self._let_go(selector, stranger, str(error))
            return False
        selector.unregister(stranger.connection)
        del self._greeted[stranger.connection]
        return True

    def _let_go(self, selector: selectors.BaseSelector, stranger: _Stranger, reason: str) -> None:
        log.info("let go peer=%s reason=%s", stranger.peer, reason)
        selector.unregister(stranger.connection)
        del self._greeted[stranger.connection]
        stranger.connection.close()
