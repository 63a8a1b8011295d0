"""The reference client of streams of tokens, by httpx: its own HTTP, chunks and connections, the same records."""

from __future__ import annotations

import array
import asyncio
import ssl
import time
from typing import Any, ClassVar

import httpx

from inferbench_tasks.clients.answers import Outputs
from inferbench_tasks.clients.base import CONNECTION, OK, RECONNECT_DELAY_S, RESET, Call, Payload
from inferbench_tasks.clients.openai import CLOSES_KEPT, TOO_LARGE
from inferbench_tasks.clients.openai_form import without_key
from inferbench_tasks.clients.stamped_transport import NOT_STAMPED
from inferbench_tasks.clients.tasks import TaskClient, knock

_OWN_HEADERS = ("host", "content-length")
_WORDS_BYTES = 4096
#: An attempt's end that is no answer's: a kept connection that the server had closed.
_CLOSED = "closed"


class ReferenceOpenAIClient(TaskClient):
    """One pool of httpx with as many connections as are allowed."""

    extra: ClassVar[str | None] = None

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        target = self.settings.target
        assert target is not None
        self._scheme = "https" if target.tls else "http"
        self._key = target.key()
        self._client: httpx.AsyncClient | None = None
        self._closes_kept = False

    async def open(self, connections: int) -> None:
        await knock(self.settings)
        limits = httpx.Limits(max_connections=self.settings.connections)
        # The sender ends what takes too long. No proxy, cookie or redirect: requests go where they were to go.
        self._client = httpx.AsyncClient(
            limits=limits,
            timeout=None,  # noqa: S113
            trust_env=False,
            verify=ssl.create_default_context(),
            headers={"Accept-Encoding": "identity"},
        )

    async def exchange(self, call: Call) -> tuple[str, bytes | Outputs]:
        status, answer = await self._attempt(call)
        while status == _CLOSED:
            # As the fast client: sent again, and from now on no connection is used twice.
            self._closes_kept = True
            self._explain(*CLOSES_KEPT)
            call.sent_ns = time.monotonic_ns()
            status, answer = await self._attempt(call)
        return status, answer

    async def _attempt(self, call: Call) -> tuple[str, bytes | Outputs]:
        url, headers, body = self._request(call.payload)
        assert self._client is not None
        reads, kept = array.array("q"), bytearray()
        dialled = False

        async def trace(event: str, _: dict[str, Any]) -> None:
            nonlocal dialled
            dialled |= event == "connection.connect_tcp.started"

        try:
            async with self._client.stream(
                "POST", url, content=body, headers=headers, extensions={"trace": trace}
            ) as response:
                call.first_byte_ns = time.monotonic_ns()
                if response.status_code != 200:
                    status = f"http_{response.status_code // 100}xx"
                    words = b""
                    async for piece in response.aiter_raw():
                        words += piece
                        if len(words) > _WORDS_BYTES:
                            break
                    text = words[:300].decode(errors="replace")
                    self._explain(status, f"HTTP {response.status_code}: {text}")
                    return status, b""
                async for piece in response.aiter_raw():
                    now_ns = time.monotonic_ns()
                    kept += piece
                    reads.extend((now_ns, NOT_STAMPED, len(kept)))
                    call.bytes_received += len(piece)
                    if call.bytes_received > self._check.max_bytes:
                        self._explain(TOO_LARGE, f"more than {self._check.max_bytes:,} bytes")
                        return TOO_LARGE, b""
                return OK, {}
        except httpx.ConnectError as error:
            self._explain(CONNECTION, str(error))
            await asyncio.sleep(RECONNECT_DELAY_S)  # a dead server is not hammered
            return CONNECTION, b""
        except (httpx.HTTPError, OSError) as error:
            if call.first_byte_ns < 0 and not dialled:
                return _CLOSED, b""
            self._explain(RESET, str(error) or type(error).__name__)
            return RESET, b""
        finally:
            if self.settings.streams is not None and kept:
                self.settings.streams.keep(call.request_id, reads, kept)

    async def close(self) -> None:
        await super().close()
        if self._client is not None:
            await self._client.aclose()

    def problem(self, call: Call, answer: bytes | Outputs) -> str | None:
        """What a stream says is found out after the load."""
        return None

    def _explain(self, status: str, text: str) -> None:
        self._sink.explain(status, without_key(text, self._key))

    def _request(self, payload: Payload) -> tuple[str, dict[str, str], bytes]:
        """The pre-built request taken apart again."""
        head, _, body = payload.wire.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        headers = {name: value for name, value in pairs if name.lower() not in _OWN_HEADERS}
        if self._closes_kept:
            headers["Connection"] = "close"
        return f"{self._scheme}://{self.settings.endpoint.url}{first.split()[1]}", headers, body
