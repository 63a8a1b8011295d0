"""A limit on wrong passwords: so many for a login from one address, then none is looked at for a while."""

from __future__ import annotations

import json
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

#: So many wrong passwords within so many seconds; the next is refused with 429 until the oldest has grown old.
WRONG, WINDOW_S = 10, 60.0
#: Longest body of a login that is looked at, and how many logins are remembered.
BODY_BYTES, REMEMBERED = 16 * 1024, 10_000
REFUSED = 401


class Throttle:
    """ASGI middleware in front of the routes that give tokens for passwords.

    ``paths``: how the paths of those routes end, where the app has others too; all of its routes without.
    """

    def __init__(
        self, app: Any, clock: Callable[[], float] = time.monotonic, paths: tuple[str, ...] = ("",)
    ) -> None:
        self._app, self._clock, self._paths = app, clock, paths
        self._wrong: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """429 with Retry-After where there were too many; else the route's own answer."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith(self._paths):
            await self._app(scope, receive, send)
            return
        body = await _read(receive)
        if body is None:
            await _answer(send, 413, "A login has at most 16 KB.")
            return
        key = ((scope.get("client") or ("", 0))[0], _login(body))
        if (left_s := self._left_s(key)) > 0:
            text = f"{WRONG} wrong passwords within {WINDOW_S:.0f} s: try again in {left_s:.0f} s."
            await _answer(send, 429, text, left_s)
            return
        status = 0

        async def watched(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        await self._app(scope, _replayed(body, receive), watched)
        if status == REFUSED:
            self._count(key)
        elif 200 <= status < 300:
            self._wrong.pop(key, None)

    def _left_s(self, key: tuple[str, str]) -> float:
        moments = self._wrong.get(key)
        if moments is None or len(moments) < WRONG:
            return 0.0
        return moments[0] + WINDOW_S - self._clock()

    def _count(self, key: tuple[str, str]) -> None:
        self._wrong.setdefault(key, deque(maxlen=WRONG)).append(self._clock())
        self._wrong.move_to_end(key)
        while len(self._wrong) > REMEMBERED:
            self._wrong.popitem(last=False)


async def _read(receive: Any) -> bytes | None:
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY_BYTES:
            return None
        if not message.get("more_body"):
            return body


def _replayed(body: bytes, receive: Any) -> Any:
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        return messages.pop() if messages else await receive()

    return again


def _login(body: bytes) -> str:
    """The name in the body, JSON or a form; what can't be read counts as one login."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        names = parse_qs(body.decode(errors="replace"), max_num_fields=None).get("username", [""])
        return names[0][:200]
    return str(document.get("username", ""))[:200] if isinstance(document, dict) else ""


async def _answer(send: Any, status: int, text: str, retry_after_s: float = 0.0) -> None:
    headers = [(b"content-type", b"application/json")]
    if retry_after_s:
        headers.append((b"retry-after", str(int(retry_after_s) + 1).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"detail": text}).encode()})
