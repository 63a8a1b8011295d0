"""gRPC questions one at a time, each over a connection of its own: readiness, metadata, one inference.

They go through the load's own client, because grpcio keeps what a hostile server sends beside its answer (windows and
settings without end: 70 to 120 MB in each second, seen), and no option of it bounds that.
"""

from __future__ import annotations

import asyncio

from inferbench_tasks.clients.answers import AnswerCheck, BadAnswer, Outputs
from inferbench_tasks.clients.base import CONNECTION, OK, RESET, Call, ClientSettings, Payload, Sink
from inferbench_tasks.clients.grpc import GrpcClient, request_form
from inferbench_tasks.clients.grpc_message import frame, unframe
from inferbench_tasks.contracts.handles import Endpoint

#: The server did not look at the question, or nobody waits for it any more: to be asked again, not an answer.
_NO_ANSWER = (CONNECTION, RESET, "http_5xx", "grpc_unavailable", "grpc_deadline_exceeded", "grpc_cancelled")
_REFUSED_STREAM = "the server takes no request now"


class RefusedCall(Exception):
    """The server answered, and the answer is an error or no answer of gRPC. ``status`` is a record's."""

    def __init__(self, status: str, words: str) -> None:
        super().__init__(f"{status}: {words}" if words else status)
        self.status = status


def ask(endpoint: Endpoint, path: str, message: bytes, *, timeout_s: float, max_bytes: int) -> bytes:
    """The message that answers this one.

    ``path``: "/package.Service/Method". Raises ConnectionError where nobody answers within ``timeout_s``, RefusedCall
    where the answer is an error, more than ``max_bytes``, or against the protocol.
    """
    return asyncio.run(_ask(endpoint, path, message, timeout_s, max_bytes))


async def _ask(endpoint: Endpoint, path: str, message: bytes, timeout_s: float, max_bytes: int) -> bytes:
    settings = ClientSettings(endpoint, 1, timeout_ns=int(timeout_s * 1e9), connect_timeout_s=timeout_s)
    end, answer = _End(), _Answer(max_bytes)
    client = _Once(settings, asyncio.get_running_loop(), end, answer)
    client.request = request_form(endpoint, path, settings.timeout_ns)
    try:
        async with asyncio.timeout(timeout_s):
            await client.open(1)
            status = await end.status if client.send(Call(0, 0, Payload(frame(message), 0, 1))) else RESET
    except TimeoutError as error:
        raise ConnectionError(f"{endpoint.url}: no answer within {timeout_s:g} s") from error
    finally:
        await client.close()
    words = end.words.get(status, _REFUSED_STREAM if status == RESET else "")
    if status in _NO_ANSWER:
        raise ConnectionError(f"{endpoint.url}: {words or status}")
    if status != OK:
        raise RefusedCall(status, words)
    return answer.message


class _Once(GrpcClient):
    """One question, one connection."""

    def replace(self) -> None:
        """A load would open another one."""


class _End(Sink):
    """How the one call ended."""

    def __init__(self) -> None:
        self.status: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.words: dict[str, str] = {}

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        if not self.status.done():
            self.status.set_result(status)

    def ready(self) -> None:
        """Nothing waits for room."""

    def again(self, call: Call) -> None:
        self.finish(call, RESET, -1)

    def unreachable(self, reason: str) -> None:
        """What was sent has ended by itself."""

    def explain(self, status: str, text: str) -> None:
        self.words.setdefault(status, text)


class _Answer(AnswerCheck):
    """Keeps the message of the one answer, whatever it says."""

    def __init__(self, max_bytes: int) -> None:
        super().__init__(lambda _: {})
        self.max_bytes = max_bytes
        self.message = b""

    def held_bytes(self, requests: int) -> int:
        """One answer is all that there is."""
        return self.max_bytes

    def problem(self, batch_size: int, length: int, answer: bytes | Outputs) -> str | None:
        """What is wrong with the frame; the message is the asker's to read."""
        assert isinstance(answer, bytes)
        try:
            self.message = unframe(answer)
        except BadAnswer as error:
            return str(error)
        return None
