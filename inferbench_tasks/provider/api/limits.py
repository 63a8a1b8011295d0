"""What a request may be, whoever sends it: looked at before any route, login included."""

from __future__ import annotations

import json
from typing import Any

#: Twice the longest submission, for what JSON escapes.
MAX_BODY_BYTES = 2_000_000
#: Tasks report to ``/execution`` (Airflow's own API for workers), also those of other DAGs: their results are larger.
MAX_REPORT_BYTES = 64_000_000
EXECUTION = "/execution/"


class BodyLimit:
    """Answers 413 to a body that is longer than allowed, whether the request says its length or not.

    A body is read up to its limit before the application is asked: nothing behind this ever has to hold more.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = MAX_REPORT_BYTES if scope["path"].startswith(EXECUTION) else MAX_BODY_BYTES
        if _length(scope) > most:
            await _refuse(send, 413, f"the body is longer than {most:,} bytes")
            return
        body: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":  # the caller is gone
                return
            body.append(message.get("body", b""))
            size += len(body[-1])
            more = message.get("more_body", False)
            if size > most:
                await _refuse(send, 413, f"the body is longer than {most:,} bytes")
                return
        whole: list[Any] = [{"type": "http.request", "body": b"".join(body), "more_body": False}]
        body.clear()

        async def replayed() -> Any:
            return whole.pop() if whole else await receive()

        await self._app(scope, replayed, send)


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
