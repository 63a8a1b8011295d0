"""Streams of server-sent events that one process holds open: so many in all, and so many of one login."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

from fastapi import HTTPException
from fastapi.responses import StreamingResponse

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nginx would hold the events back


class Watchers:
    """Who watches, counted from the answer's beginning to its end. Used by one event loop."""

    def __init__(self, most: int, most_of_a_login: int) -> None:
        self.most, self.most_of_a_login = most, most_of_a_login
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._of.total()

    def stream(self, login: str, events: AsyncIterator[str]) -> StreamingResponse:
        """The events as an answer, which counts from now on; HTTPException 503 where too many watch already, 429 where
        this login does.
        """
        if len(self) >= self.most:
            raise HTTPException(503, f"{self.most} watch already: reload the page now and then")
        if self._of[login] >= self.most_of_a_login:
            raise HTTPException(
                429, f"you watch {self.most_of_a_login} pages already: close one, or reload this now and then"
            )
        self._of[login] += 1
        return _Stream(self._of, login, events)


class _Stream(StreamingResponse):
    """Counts no more once it has ended, also if who asked has gone before its first event."""

    def __init__(self, counts: Counter[str], login: str, events: AsyncIterator[str]) -> None:
        super().__init__(events, media_type="text/event-stream", headers=_HEADERS)
        self._counts, self._login = counts, login

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._counts[self._login] -= 1
            if not self._counts[self._login]:
                del self._counts[self._login]
