"""The reference client of HTTP/1.1, by aiohttp."""

from __future__ import annotations

import asyncio
import time
from typing import Any, ClassVar

from inferbench_tasks.clients.base import (
    BAD_RESPONSE,
    CONNECTION,
    OK,
    RECONNECT_DELAY_S,
    RESET,
    Call,
    Payload,
)
from inferbench_tasks.clients.bounded_response import AnswerTooLarge, bounded
from inferbench_tasks.clients.kserve_http import answer_of
from inferbench_tasks.clients.tasks import TaskClient, knock

_OWN_HEADERS = ("host", "content-length")


class ReferenceHttpClient(TaskClient):
    """One session; aiohttp's pool has as many connections as are allowed."""

    extra: ClassVar[str] = "reference"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        import aiohttp

        self._aiohttp = aiohttp
        self._session: aiohttp.ClientSession | None = None

    async def open(self, connections: int) -> None:
        await knock(self.settings)
        connector = self._aiohttp.TCPConnector(limit=self.settings.connections)
        timeout = self._aiohttp.ClientTimeout(total=None)  # the sender ends what takes too long
        self._session = self._aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            response_class=bounded(self._check.max_bytes),
            auto_decompress=False,
            skip_auto_headers=("Accept-Encoding",),  # the fast client offers no compression either
        )

    async def exchange(self, call: Call) -> tuple[str, bytes]:
        url, headers, body = self._request(call.payload)
        assert self._session is not None
        try:
            async with self._session.post(url, data=body, headers=headers) as response:
                call.first_byte_ns = time.monotonic_ns()
                answer = await response.read()
                call.bytes_received = len(answer)
                if response.status != 200:
                    status = f"http_{response.status // 100}xx"
                    text = answer[:300].decode(errors="replace")
                    self._sink.explain(status, f"HTTP {response.status}: {text}")
                    return status, b""
                length = response.headers.get("inference-header-content-length")
                return OK, answer_of(answer, int(length) if length else None)
        except AnswerTooLarge as error:
            self._sink.explain(BAD_RESPONSE, str(error))
            return BAD_RESPONSE, b""
        except self._aiohttp.ClientConnectorError as error:
            self._sink.explain(CONNECTION, str(error))
            await asyncio.sleep(RECONNECT_DELAY_S)  # a dead server is not hammered
            return CONNECTION, b""
        except (self._aiohttp.ClientError, OSError) as error:
            self._sink.explain(RESET, str(error) or type(error).__name__)
            return RESET, b""

    async def close(self) -> None:
        await super().close()
        if self._session is not None:
            await self._session.close()

    def _request(self, payload: Payload) -> tuple[str, dict[str, str], bytes]:
        """The pre-built request taken apart again. Each time: what is made while the load runs is another each time."""
        head, _, body = payload.wire.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        pairs = (line.split(": ", 1) for line in lines)
        headers = {name: value for name, value in pairs if name.lower() not in _OWN_HEADERS}
        return f"http://{self.settings.endpoint.url}{first.split()[1]}", headers, body
