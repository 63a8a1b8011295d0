"""What a request may be, whoever sends it: looked at before any route, login included."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

#: Twice the longest submission, for what JSON escapes.
MAX_BODY_BYTES = 2_000_000
#: Tasks report to ``/execution`` (Airflow's own API for workers), also those of other DAGs: their results are larger.
MAX_REPORT_BYTES = 64_000_000
EXECUTION = "/execution/"
#: Airflow's own word, of its command's option, for what this process serves.
APPS = "AIRFLOW_API_APPS"
#: How long a body may take to arrive, and how many bytes of bodies that are not yet whole are held, of tasks' reports
#: and of all others. Hundreds of connections with a byte a second would otherwise take as much memory as they like.
PATIENCE_S = 60.0
MAX_HELD_BYTES = 256_000_000
#: Of a request whose caller has ended it: nobody waits for an answer.
GONE = (0, "")


class BodyLimit:
    """Answers 413 to a body that is longer than allowed, whether the request says its length or not.

    408 to one that takes longer than ``patience_s`` to arrive; 503 where too much is held of others that have not.

    A body is read up to its limit before the application is asked: nothing behind this ever has to hold more.
    """

    def __init__(
        self, app: Any, patience_s: float = PATIENCE_S, max_held_bytes: int = MAX_HELD_BYTES
    ) -> None:
        self._app, self._patience_s, self._max_held_bytes = app, patience_s, max_held_bytes
        #: A server of the UI alone (``core``) gets no reports of tasks.
        self._reports = os.environ.get(APPS) != "core"
        #: Of bodies that are under way: of reports, and of all others.
        self.held_bytes = {True: 0, False: 0}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        report = self._reports and scope["path"].startswith(EXECUTION)
        most = MAX_REPORT_BYTES if report else MAX_BODY_BYTES
        if _length(scope) > most:
            await _refuse(send, 413, f"the body is longer than {most:,} bytes")
            return
        body = bytearray()
        try:
            async with asyncio.timeout(self._patience_s):
                refusal = await self._read(receive, body, most, report)
        except TimeoutError:
            refusal = 408, f"the body took longer than {self._patience_s:g} s to arrive"
        finally:
            self.held_bytes[report] -= len(body)
        if refusal is not None:
            if refusal != GONE:
                await _refuse(send, *refusal)
            return
        whole: list[Any] = [{"type": "http.request", "body": bytes(body), "more_body": False}]
        body.clear()

        async def replayed() -> Any:
            return whole.pop() if whole else await receive()

        await self._app(scope, replayed, send)

    async def _read(self, receive: Any, body: bytearray, most: int, report: bool) -> tuple[int, str] | None:
        """All of a body's pieces into ``body``; None, or as status and reason why not."""
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return GONE
            piece = message.get("body", b"")
            body += piece
            self.held_bytes[report] += len(piece)
            more = message.get("more_body", False)
            if len(body) > most:
                return 413, f"the body is longer than {most:,} bytes"
            if more and self.held_bytes[report] > self._max_held_bytes:
                return 503, "too many requests send their bodies at once; try again"
        return None


class PlainAddress:
    """Answers 422 to an address with a NUL in it: no file, database or name has one, and each fails on it otherwise."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        query = scope.get("query_string", b"")
        if scope["type"] == "http" and ("\0" in scope["path"] or b"%00" in query or b"\0" in query):
            where = "path" if "\0" in scope["path"] else "query"
            problem = {"loc": [where], "msg": "the character U+0000 is not allowed", "type": "value"}
            await _refuse(send, 422, [problem])
            return
        await self._app(scope, receive, send)


def _length(scope: Any) -> int:
    """The body's length as the request says it; 0 where it says none, or none that is a number."""
    text = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    # A server refuses other texts itself, and Python takes thousands of digits only slowly.
    return (
        int(text) if text.isdigit() and len(text) <= 19 else (MAX_REPORT_BYTES + 1 if text.isdigit() else 0)
    )


async def _refuse(send: Any, status: int, detail: Any) -> None:
    body = json.dumps({"detail": detail}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        # What the caller still sends is not read.
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
