"""NVIDIA's tritonclient (``load.client: tritonclient``): its asyncio clients, by the calls that its users write.

The library writes each request and reads each answer by itself, while the load runs, which is what it costs its
users and is part of what is measured here. It does not tell when the first byte came, nor an answer's exact bytes:
``first_byte_ns`` stays -1, and ``bytes_received`` is the answer written again in its shortest form.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any, ClassVar

import orjson

from inferbench_tasks.clients import kserve_grpc, kserve_http
from inferbench_tasks.clients.answers import Outputs
from inferbench_tasks.clients.base import BAD_RESPONSE, CONNECTION, OK, RECONNECT_DELAY_S, RESET, Call
from inferbench_tasks.clients.bounded_response import AnswerTooLarge, bounded
from inferbench_tasks.clients.grpc_message import PREFIX_BYTES
from inferbench_tasks.clients.reference_grpc import STREAMS_PER_CHANNEL, channel_options
from inferbench_tasks.clients.tasks import TaskClient, knock
from inferbench_tasks.protocols.datatypes import datatype_of

#: Nor does the fast client offer a compression.
_HEADERS = {"Accept-Encoding": "identity"}


class TritonClient(TaskClient):
    """What both protocols share: from a request's arrays to the library's inputs, from its result to arrays."""

    extra: ClassVar[str] = "reference"
    #: The library's module of inputs and outputs of this protocol.
    _library: Any

    async def exchange(self, call: Call) -> tuple[str, Outputs]:
        from tritonclient.utils import InferenceServerException

        try:
            result = await self._infer(call)
            outputs = self._outputs(call, result)
        except InferenceServerException as error:
            if error.status() is not None:
                status, text = self._refusal(error.status(), error.message())
                self._sink.explain(status, text)
                return status, {}
            problem = str(error.message())
        except (ValueError, KeyError, TypeError) as error:
            problem = f"{type(error).__name__}: {error}"
        else:
            return OK, outputs
        self._sink.explain(BAD_RESPONSE, f"tritonclient can't read the answer: {problem}")
        return BAD_RESPONSE, {}

    @abstractmethod
    async def _infer(self, call: Call) -> Any:
        """The library's InferResult; its InferenceServerException where the server refuses."""

    @abstractmethod
    def _outputs(self, call: Call, result: Any) -> Outputs:
        """A result's arrays by name; sets ``bytes_received``."""

    @abstractmethod
    def _refusal(self, code: str, text: str) -> tuple[str, str]:
        """The record's status, and the server's words, for the protocol's own status."""

    def _inputs(self, arrays: Outputs, **options: Any) -> list[Any]:
        inputs = []
        for name, array in arrays.items():
            tensor = self._library.InferInput(name, list(array.shape), datatype_of(array.dtype.name))
            inputs.append(tensor.set_data_from_numpy(array, **options))
        return inputs


class TritonHttpClient(TritonClient):
    """``tritonclient.http.aio``: one client; aiohttp's pool in it has as many connections as are allowed."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        import aiohttp
        import tritonclient.http.aio

        self._aiohttp = aiohttp
        self._library = tritonclient.http.aio
        self._client: Any = None

    async def open(self, connections: int) -> None:
        await knock(self.settings)
        self._client = self._library.InferenceServerClient(
            self.settings.endpoint.url,
            conn_limit=self.settings.connections,
            conn_timeout=None,  # the sender ends what takes too long
        )
        # The library makes its session itself, and reads whatever comes.
        self._client._stub._response_class = bounded(self._check.max_bytes)

    async def exchange(self, call: Call) -> tuple[str, Outputs]:
        aiohttp = self._aiohttp
        try:
            return await super().exchange(call)
        except AnswerTooLarge as error:
            status, text = BAD_RESPONSE, str(error)
        except aiohttp.ClientConnectorError as error:
            status, text = CONNECTION, str(error)
            await asyncio.sleep(RECONNECT_DELAY_S)  # a dead server is not hammered
        except aiohttp.ClientResponseError as error:
            status, text = BAD_RESPONSE, f"not HTTP: {error.message}"
        except (aiohttp.ClientError, OSError) as error:
            status, text = RESET, str(error) or type(error).__name__
        self._sink.explain(status, text)
        return status, {}

    async def _infer(self, call: Call) -> Any:
        arrays, binary = kserve_http.decode_request(call.payload.wire)
        # Answers come as binary tensors unless each output is asked for by its name.
        names = () if binary else self._check.names
        outputs = [self._library.InferRequestedOutput(name, binary_data=False) for name in names]
        endpoint = self.settings.endpoint
        return await self._client.infer(
            endpoint.model_name,
            self._inputs(arrays, binary_data=binary),
            model_version=endpoint.model_version,
            outputs=outputs or None,
            headers=_HEADERS | dict(call.payload.metadata),  # the library writes into it
        )

    def _outputs(self, call: Call, result: Any) -> Outputs:
        document = result.get_response()
        described = document["outputs"]
        sizes = (item.get("parameters", {}).get("binary_data_size", 0) for item in described)
        call.bytes_received = len(orjson.dumps(document)) + sum(sizes)
        return {item["name"]: result.as_numpy(item["name"]) for item in described}

    def _refusal(self, code: str, text: str) -> tuple[str, str]:
        return f"http_{code[0]}xx", f"HTTP {code}: {text[:300]}"

    async def close(self) -> None:
        await super().close()
        if self._client is not None:
            await self._client.close()


class TritonGrpcClient(TritonClient):
    """``tritonclient.grpc.aio``: as many clients as connections are allowed, each with a channel of its own."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        import tritonclient.grpc.aio

        self._library = tritonclient.grpc.aio
        self._clients: list[Any] = []
        self._turn = 0
        self.in_flight_limit = self.settings.connections * STREAMS_PER_CHANNEL

    async def open(self, connections: int) -> None:
        await knock(self.settings)
        for _ in range(connections):
            client = self._library.InferenceServerClient(
                self.settings.endpoint.url, channel_args=channel_options(self._check.max_bytes)
            )
            self._clients.append(client)
        await asyncio.gather(*(self._connect(client) for client in self._clients))

    async def _connect(self, client: Any) -> None:
        """A channel connects at its first call; whatever a server says to this one, it has been reached."""
        from tritonclient.utils import InferenceServerException

        try:
            await client.is_server_live(client_timeout=self.settings.connect_timeout_s)
        except InferenceServerException as error:
            if error.status() in ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED"):
                await self.close()
                raise ConnectionError(
                    f"no connection to {self.settings.endpoint.url}: {error.message()}"
                ) from error

    async def _infer(self, call: Call) -> Any:
        self._turn = (self._turn + 1) % len(self._clients)
        endpoint = self.settings.endpoint
        return await self._clients[self._turn].infer(
            endpoint.model_name,
            self._inputs(kserve_grpc.decode_request(call.payload.wire)),
            model_version=endpoint.model_version,
            client_timeout=self.settings.timeout_ns / 1e9,
            headers=dict(call.payload.metadata),
        )

    def _outputs(self, call: Call, result: Any) -> Outputs:
        answer = result.get_response()
        call.bytes_received = answer.ByteSize() + PREFIX_BYTES
        return {item.name: result.as_numpy(item.name) for item in answer.outputs}

    def _refusal(self, code: str, text: str) -> tuple[str, str]:
        return f"grpc_{code.removeprefix('StatusCode.').lower()}", text

    async def close(self) -> None:
        await super().close()
        for client in self._clients:
            await client.close()
        self._clients.clear()
