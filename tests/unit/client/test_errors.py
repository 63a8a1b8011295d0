"""Answers that are no success become our errors."""

from __future__ import annotations

import httpx
import pytest

from inferbench_tasks.client import AccessError, ApiError, InferBench
from inferbench_tasks.errors import InputError


def bench(*answers: httpx.Response) -> tuple[InferBench, list[httpx.Request]]:
    """A client of a server that gives these answers in turn, logins aside."""
    asked: list[httpx.Request] = []
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/auth/token":
            return httpx.Response(200, json={"access_token": f"t{len(asked)}"})
        asked.append(request)
        return left.pop(0)

    http = httpx.Client(transport=httpx.MockTransport(answer), base_url="http://x")
    return InferBench("http://x", "a", "b", http=http), asked


def test_a_token_that_ran_out_is_renewed_once() -> None:
    """After a 401 the client logs in again; a second 401 is the caller's to know."""
    client, asked = bench(httpx.Response(401), httpx.Response(200, json={"items": []}))
    assert client.leaderboard() == []
    assert asked[0].headers["authorization"] != asked[1].headers["authorization"]
    client, asked = bench(httpx.Response(401), httpx.Response(401, json={"detail": "no"}))
    with pytest.raises(AccessError) as caught:
        client.leaderboard()
    assert caught.value.status == 401 and len(asked) == 2


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        (403, {"detail": "Forbidden"}, AccessError, "403: Forbidden"),
        (404, {"detail": "there is no run 'x'"}, InputError, "no run 'x'"),
        (
            422,
            {"detail": [{"loc": ["query", "by"], "msg": "unknown figure"}]},
            InputError,
            "by: unknown figure",
        ),
        (503, {"detail": "PerfDB is away"}, ApiError, "503: PerfDB is away"),
        (500, "<html>", ApiError, "500: <html>"),
    ],
)
def test_each_status_is_an_error_of_its_own(
    status: int, body: object, error: type[Exception], said: str
) -> None:
    """The message has what the server said."""
    text = {"text": body} if isinstance(body, str) else {"json": body}
    client, _ = bench(httpx.Response(status, **text))
    with pytest.raises(error, match=said):
        client.run("x")


def test_a_server_that_is_not_there() -> None:
    """ApiError with its address."""

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    http = httpx.Client(transport=httpx.MockTransport(refuse), base_url="http://nowhere")
    with pytest.raises(ApiError, match=r"nowhere.* can't be reached"):
        InferBench("http://nowhere", "a", "b", http=http).run("x")


def test_pages_follow_each_other() -> None:
    """``runs`` asks until there is no next page, and for no more than is wanted."""
    pages = [
        httpx.Response(200, json={"items": [{"run": n}], "next_offset": n + 1 if n < 2 else None})
        for n in range(3)
    ]
    client, asked = bench(*pages)
    assert [row["run"] for row in client.runs()] == [0, 1, 2]
    assert [request.url.params["offset"] for request in asked] == ["0", "1", "2"]
