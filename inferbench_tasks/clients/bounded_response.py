"""aiohttp's answer, read up to a number of bytes: by itself it reads whatever a server sends."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from inferbench_tasks.protocols.bounds import too_large

if TYPE_CHECKING:
    from aiohttp import ClientResponse


class AnswerTooLarge(Exception):
    """A server sent more than an answer may have."""


@lru_cache(maxsize=4)
def bounded(limit_bytes: int) -> type[ClientResponse]:
    """The class of answers whose ``read`` ends with AnswerTooLarge, and the connection with it, after so many bytes."""
    from aiohttp import ClientResponse

    class BoundedResponse(ClientResponse):
        async def read(self) -> bytes:
            if self._body is None:
                parts, received = [], 0
                async for part in self.content.iter_any():
                    parts.append(part)
                    received += len(part)
                    if received > limit_bytes:
                        self.close()
                        raise AnswerTooLarge(too_large(limit_bytes))
                self._body = b"".join(parts)
            body: bytes = self._body
            return body

    return BoundedResponse
