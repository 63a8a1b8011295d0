"""What a request may be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from inferbench_tasks.provider.api.limits import MAX_BODY_BYTES, BodyLimit, PlainAddress

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


@pytest.mark.parametrize(("path", "query"), [("/a\0b", b""), ("/a", b"q=run=%00*"), ("/a", b"q=\0")])
def test_an_address_has_no_nul(path: str, query: bytes) -> None:
    """422, before anything opens a file or asks a database by that name."""
    status, body, _ = ask(PlainAddress, path=path, query=query)
    assert status == 422 and b"U+0000" in body
    assert ask(PlainAddress, path="/a", query=b"q=100%25")[0] == 200
