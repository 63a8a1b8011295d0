"""The side that measures: questions for the time, and streams both ways."""

from __future__ import annotations

import json
import random
import socket
import time
from types import TracebackType

from pydantic import ValidationError

from inferbench_tasks.contracts.link import LinkEnd
from inferbench_tasks.errors import LoadError
from inferbench_tasks.networks.links import wire
from inferbench_tasks.networks.links.invitation import Invitation
from inferbench_tasks.timing.two_clocks import Exchange

#: Who is connected to, unless another is named.
LISTENER = "`inferbench links listen`"
#: Between two questions, so that they meet the hosts at all moments, and none that is kept awake by the one before.
_LEAST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.0025


class NearSide:
    """A connection to the far side, from entering to leaving. Raises LoadError, with what went wrong."""

    def __init__(
        self, invitation: Invitation, rng: random.Random | None = None, *, listener: str = LISTENER
    ) -> None:
        """``listener``: who waits there, in what is said where it does not."""
        self.invitation, self._listener = invitation, listener
        self._rng = rng or random.Random()
        self._place = f"{invitation.address} port {invitation.port}"

    def __enter__(self) -> NearSide:
        address = self.invitation.address, self.invitation.port
        try:
            self._connection = socket.create_connection(address, timeout=wire.GREETING_S)
        except OSError as error:
            raise LoadError(
                f"{self._place} can't be reached ({error.strerror or error}): is {self._listener} still "
                "waiting there, and does nothing keep this host from that port?"
            ) from error
        try:
            wire.prepare(self._connection)
            wire.greet(self._connection, self.invitation.secret)
            self.far = LinkEnd.model_validate_json(wire.receive_text(self._connection))
        except LoadError as error:
            self._connection.close()
            raise LoadError(f"{self._place}: {error}") from None
        except (OSError, ValidationError, UnicodeDecodeError) as error:
            self._connection.close()
            raise LoadError(f"{self._place} did not greet as {self._listener} does: {error}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._connection.sendall(wire.QUIT)
        except OSError:
            pass  # it is gone, and needs no word
        finally:
            self._connection.close()

    @property
    def own_address(self) -> str:
        """From which this host reaches the other."""
        return str(self._connection.getsockname()[0])

    def exchanges(self, most: int, limit_s: float) -> list[Exchange]:
        """Questions for the time, one after the other: so many, or those of ``limit_s``; one at least."""
        connection, asked = self._connection, []
        end = time.monotonic() + limit_s
        try:
            while True:
                sent_ns = time.monotonic_ns()
                connection.sendall(wire.TIME)
                answer = wire.receive(connection, wire.PAIR.size)
                received_ns = time.monotonic_ns()
                arrived_ns, answered_ns = wire.PAIR.unpack(answer)
                asked.append(Exchange(sent_ns, arrived_ns, answered_ns, received_ns))
                if len(asked) >= most or time.monotonic() >= end:
                    return asked
                time.sleep(self._rng.uniform(_LEAST_PAUSE_S, _LONGEST_PAUSE_S))
        except OSError as error:
            raise self._gone(error) from error

    def epoch(self) -> dict[str, int]:
        """``epoch_offset`` of the far host."""
        offset_ns, error_ns = self._pair(wire.EPOCH)
        return {"offset_ns": offset_ns, "error_ns": error_ns}

    def tell(self, order: bytes) -> str:
        """Give the far side an order of its ``more``; what it says."""
        try:
            self._connection.sendall(order)
            return wire.receive_text(self._connection)
        except OSError as error:
            raise self._gone(error) from error

    def ask(self, words: str) -> bytes:
        """Ask the far side in words; what it answers."""
        try:
            self._connection.sendall(wire.ASK)
            wire.send_text(self._connection, words)
            return wire.receive_bytes(self._connection)
        except OSError as error:
            raise self._gone(error) from error

    def up_mbit_s(self, duration_s: float) -> float:
        """Of a stream to the far host, as it counts what comes."""
        try:
            self._connection.sendall(wire.UP)
            wire.send_stream(self._connection, duration_s)
        except OSError as error:
            raise self._gone(error) from error
        return wire.Counted(*self._pair()).mbit_s

    def down_mbit_s(self, duration_s: float) -> float:
        """Of a stream from the far host, as this one counts what comes."""
        try:
            self._connection.sendall(wire.DOWN + wire.LENGTH.pack(round(duration_s * 1e3)))
            return wire.receive_stream(self._connection).mbit_s
        except OSError as error:
            raise self._gone(error) from error

    def _pair(self, order: bytes = b"") -> tuple[int, int]:
        try:
            self._connection.sendall(order)
            first, second = wire.PAIR.unpack(wire.receive(self._connection, wire.PAIR.size))
        except OSError as error:
            raise self._gone(error) from error
        return first, second

    def _gone(self, error: OSError) -> LoadError:
        return LoadError(f"the link to {json.dumps(self.far.host)} ({self._place}) was lost: {error}")
