"""What a request may be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inferbench_tasks.provider.api.limits import APPS, MAX_BODY_BYTES, BodyLimit, PlainAddress

PART = b"x" * 500_000


def ask(
    middleware: type, *parts: bytes, path: str = "/inferbench/api/runs", query: bytes = b"", length: str = ""
) -> tuple[int, bytes, int]:
    """Status and body of the answer, and how many parts of the request were read."""
    answers: list[Any] = []
    messages = [
        {"type": "http.request", "body": part, "more_body": index + 1 < len(parts)}
        for index, part in enumerate(parts or (b"",))
    ]
    count = len(messages)

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        answers.append(message)

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % len(body)})

    headers = [(b"content-length", length.encode())] if length else []
    scope = {"type": "http", "path": path, "query_string": query, "headers": headers}
    asyncio.run(middleware(echo)(scope, receive, send))
    return answers[0]["status"], answers[1]["body"], count - len(messages)


def test_a_body_within_the_limit_arrives_whole() -> None:
    """Its parts come as one, up to the limit itself."""
    assert ask(BodyLimit, *[PART] * 4) == (200, b"2000000", 4)
    assert ask(BodyLimit) == (200, b"0", 1)


def test_a_body_in_parts_without_a_length_is_refused_once_it_is_too_long() -> None:
    """413 after the part that passes the limit; what follows is not read."""
    status, body, read = ask(BodyLimit, *[PART] * 400)
    assert (status, read) == (413, 5)
    assert b"longer than 2,000,000 bytes" in body


@pytest.mark.parametrize("length", [str(MAX_BODY_BYTES + 1), "9" * 19, "9" * 5000])
def test_a_length_beyond_the_limit_is_refused_unread(length: str) -> None:
    """413 by the request's own word."""
    assert ask(BodyLimit, b"{}", length=length)[::2] == (413, 0)


@pytest.mark.parametrize("length", ["-1", "1e9", "²", ""])
def test_a_length_that_is_no_number_is_not_believed(length: str) -> None:
    """The bytes count."""
    assert ask(BodyLimit, *[PART] * 5, length=length)[0] == 413


def test_workers_may_report_more() -> None:
    """Results of tasks of any DAG pass here too."""
    assert ask(BodyLimit, *[PART] * 6, path="/execution/xcoms/d/r/t/k")[0] == 200
    assert ask(BodyLimit, path="/execution/xcoms", length="64000001")[0] == 413


def test_a_server_of_the_ui_alone_gets_no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """There a path of the execution API is one as any other."""
    monkeypatch.setenv(APPS, "core")
    assert ask(BodyLimit, *[PART] * 6, path="/execution/xcoms/d/r/t/k")[0] == 413


def slow_answers(first: bytes, count: int, **bounds: Any) -> list[int]:
    """The statuses of a whole request, and of ``count`` beside it that each send one part, and then nothing more."""

    async def echo(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def asked(limit: BodyLimit, whole: bool) -> int:
        statuses: list[int] = []
        parts = [{"type": "http.request", "body": first, "more_body": not whole}]

        async def receive() -> Any:
            return parts.pop() if parts else await asyncio.Event().wait()

        async def send(message: Any) -> None:
            statuses.append(message.get("status", 0))

        await limit({"type": "http", "path": "/x", "query_string": b"", "headers": []}, receive, send)
        return statuses[0]

    async def together() -> list[int]:
        limit = BodyLimit(echo, **bounds)
        slow = [asyncio.create_task(asked(limit, False)) for _ in range(count)]
        await asyncio.sleep(0)
        statuses = [await asked(limit, True), *await asyncio.gather(*slow)]
        assert not any(limit.held_bytes.values())
        return statuses

    return asyncio.run(together())


def test_a_body_that_does_not_end_is_given_up() -> None:
    """408 after a while; whole ones are answered meanwhile, and nothing is held afterwards."""
    assert slow_answers(b"x", 3, patience_s=0.05) == [200, 408, 408, 408]


def test_bodies_under_way_hold_so_much_together() -> None:
    """Whose part does not fit beside the others' is refused at once, with 503; whole ones pass."""
    statuses = slow_answers(b"x" * 1000, 5, patience_s=0.05, max_held_bytes=3000)
    assert statuses == [200, 408, 408, 408, 503, 503]


@pytest.mark.parametrize(("path", "query"), [("/a\0b", b""), ("/a", b"q=run=%00*"), ("/a", b"q=\0")])
def test_an_address_has_no_nul(path: str, query: bytes) -> None:
    """422, before anything opens a file or asks a database by that name."""
    status, body, _ = ask(PlainAddress, path=path, query=query)
    assert status == 422 and b"U+0000" in body
    assert ask(PlainAddress, path="/a", query=b"q=100%25")[0] == 200
