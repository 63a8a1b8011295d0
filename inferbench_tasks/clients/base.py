"""A client: one wire protocol, many requests in flight, as little CPU for each as possible.

A client that is expensive takes the CPU from the server that it measures. Therefore requests are bytes
before the load begins (``Payload``), a call is one small object, and a client reports its end by calling
back. Nothing here waits: what can't be sent at once is the sender's to keep (``loadgen.dispatcher``).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from inferbench_tasks.clients.answers import AnswerCheck
from inferbench_tasks.clients.openai_form import StreamTarget
from inferbench_tasks.clients.stream_file import Streams
from inferbench_tasks.contracts.handles import Endpoint
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.protocols.spans import ServerTimes
from inferbench_tasks.registry import Registry
from inferbench_tasks.timing.wall_clock import WallClock

#: The statuses that every client knows; "http_4xx", "http_5xx" and "grpc_<code>" come from the server.
OK = "ok"
TIMEOUT = "timeout"
CONNECTION = "connection"
RESET = "reset"
BAD_RESPONSE = "bad_response"
CANCELLED = "cancelled"

#: After a connection could not be made the next attempt waits so long.
RECONNECT_DELAY_S = 0.02


@dataclass(frozen=True, slots=True)
class Payload:
    """One request as it goes over the wire. ``sample_index``: its first sample; ``batch_size``: how many.

    ``metadata``: what is this request's alone beside its body, names in small letters; ``wire`` has it too where that
    is a whole request with its headers (HTTP).
    """

    wire: bytes
    sample_index: int
    batch_size: int
    metadata: tuple[tuple[str, str], ...] = ()


class Call:
    """One request under way. Times are CLOCK_MONOTONIC ns, -1 until they happen."""

    __slots__ = (
        "bytes_received", "client_spans", "connection", "done", "first_byte_ns", "intended_ns", "payload", "request_id",
        "sent_ns", "server_spans", "user",
    )  # fmt: skip

    def __init__(self, request_id: int, intended_ns: int, payload: Payload, user: int = 0) -> None:
        self.request_id = request_id
        self.intended_ns = intended_ns
        self.payload = payload
        self.user = user
        self.sent_ns = -1
        self.first_byte_ns = -1
        self.bytes_received = 0
        self.done = False
        #: Where it is under way; the client's own business.
        self.connection: object = None
        #: In ns, where the server tells.
        self.server_spans: ServerTimes | None = None
        #: (preprocess, postprocess) in ns, where the client does either while the load runs.
        self.client_spans: tuple[int, int] = (-1, -1)


@dataclass(frozen=True)
class ClientSettings:
    """``connections``: the most to hold open. ``connect_timeout_s`` bounds each attempt.

    ``timeout_ns``: a request's deadline, for protocols that tell it to the server; the sender enforces it.
    ``server_spans``: read the server's own times from its answers.
    """

    endpoint: Endpoint
    connections: int
    timeout_ns: int = 10_000_000_000
    connect_timeout_s: float = 5.0
    server_spans: bool = False
    #: Of streams of tokens: how they are asked for, and who keeps what came; None keeps nothing.
    target: StreamTarget | None = None
    streams: Streams | None = None
    #: To stamp their arrival by the kernel; None stamps it by the read.
    clock: WallClock | None = None


class Sink(ABC):
    """Who is told what happens; the sender."""

    @abstractmethod
    def finish(self, call: Call, status: str, done_ns: int) -> None:
        """A call has ended. Never called from within ``Client.send``."""

    @abstractmethod
    def ready(self) -> None:
        """Say that there is room for another call."""

    @abstractmethod
    def again(self, call: Call) -> None:
        """The server promises not to have looked at this call: it is to be sent once more."""

    @abstractmethod
    def unreachable(self, reason: str) -> None:
        """No connection is there, and none could be made: whatever waits has failed."""

    @abstractmethod
    def explain(self, status: str, text: str) -> None:
        """The server's or the system's own words about a failure."""


class Client(ABC):
    """One endpoint's connections, on one event loop."""

    def __init__(
        self, settings: ClientSettings, loop: asyncio.AbstractEventLoop, sink: Sink, check: AnswerCheck
    ) -> None:
        self.settings = settings
        self._loop = loop
        self._sink = sink
        self._check = check

    @abstractmethod
    async def open(self, connections: int) -> None:
        """Connect; OSError if not a single connection could be made."""

    @abstractmethod
    def send(self, call: Call) -> bool:
        """Send now and set ``sent_ns``; False if there is no room (``Sink.ready`` tells when)."""

    @abstractmethod
    def want(self, waiting: int) -> None:
        """So many calls wait for room: open more connections where that is allowed."""

    @abstractmethod
    def abandon(self, call: Call) -> None:
        """Nobody waits for this call any more; ``finish`` is not called for it."""

    @abstractmethod
    async def close(self) -> None:
        """End every connection; requests that are still open fail."""


ClientFactory = Callable[[ClientSettings, asyncio.AbstractEventLoop, Sink, AnswerCheck], Client]

#: "<protocol>" is the fast client, "<protocol>-<name>" the one of that name in ``load.client``.
CLIENTS: Registry[ClientFactory] = Registry(
    "client",
    "inferbench.clients",
    {
        "http": "inferbench_tasks.clients.http:HttpClient",
        "grpc": "inferbench_tasks.clients.grpc:GrpcClient",
        "grpc_tfs": "inferbench_tasks.clients.grpc:GrpcClient",
        "openai": "inferbench_tasks.clients.openai:OpenAIClient",
        "http-reference": "inferbench_tasks.clients.reference_http:ReferenceHttpClient",
        "grpc-reference": "inferbench_tasks.clients.reference_grpc:ReferenceGrpcClient",
        "grpc_tfs-reference": "inferbench_tasks.clients.reference_grpc:ReferenceGrpcClient",
        "openai-reference": "inferbench_tasks.clients.reference_openai:ReferenceOpenAIClient",
        "http-tritonclient": "inferbench_tasks.clients.tritonclient:TritonHttpClient",
        "grpc-tritonclient": "inferbench_tasks.clients.tritonclient:TritonGrpcClient",
    },
)


def client_kind(protocol: str, client: str) -> str:
    """The kind of a client for a protocol and ``load.client`` ("fast", "reference", "tritonclient")."""
    return protocol if client == "fast" else f"{protocol}-{client}"


def client_factory(protocol: str, client: str) -> ClientFactory:
    """The client of ``load.client`` for an endpoint's protocol, with its library installed.

    InputError where it does not speak the protocol, MissingExtraError where its library can't be had.
    """
    kind = client_kind(protocol, client)
    if kind not in CLIENTS:
        speakers = (other.partition("-") for other in CLIENTS)
        able = ", ".join(name or "fast" for spoken, _, name in speakers if spoken == protocol)
        raise InputError(f"{client!r} does not speak {protocol}; these do: {able}", field="load.client")
    factory = CLIENTS.load(kind)
    if extra := getattr(factory, "extra", None):
        require(extra)
    return factory
