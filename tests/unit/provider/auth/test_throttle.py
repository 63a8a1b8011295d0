"""A limit on guessed passwords."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient

from inferbench_tasks.provider.auth.throttle import REMEMBERED, WINDOW_S, WRONG, Throttle


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def site() -> tuple[TestClient, Clock, list[str]]:
    """A login route like Airflow's, behind the limit; whose passwords it looked at."""
    app, clock, asked = FastAPI(), Clock(), []

    @app.post("/token", status_code=201)
    async def token(request: Request) -> dict[str, str]:
        body: dict[str, Any] = (
            await request.json() if "json" in request.headers["content-type"] else dict(await request.form())
        )
        asked.append(str(body["username"]))
        if body["password"] != "right":
            raise HTTPException(401)
        return {"access_token": "x"}

    app.add_middleware(Throttle, clock=clock)
    return TestClient(app), clock, asked


def guess(client: TestClient, user: str = "admin", password: str = "wrong") -> int:
    return client.post("/token", json={"username": user, "password": password}).status_code


def test_guesses_are_refused_after_a_few() -> None:
    """The right password too, and nobody looks at it; another login is free to come in."""
    client, _, asked = site()
    assert {guess(client) for _ in range(WRONG)} == {401}
    assert guess(client, password="right") == 429
    assert len(asked) == WRONG
    assert guess(client, "viewer", "right") == 201


def test_a_form_counts_as_json_does() -> None:
    """One login, however it is written."""
    client, _, _ = site()
    for _ in range(WRONG - 1):
        guess(client)
    form = {"username": "admin", "password": "wrong"}
    assert client.post("/token", data=form).status_code == 401
    answer = client.post("/token", data=form)
    assert (answer.status_code, 0 < int(answer.headers["retry-after"]) <= WINDOW_S + 1) == (429, True)


def test_who_waits_or_knows_gets_in() -> None:
    """After the window, and at once as long as there were few; a right password forgets the wrong ones."""
    client, clock, _ = site()
    for _ in range(WRONG - 1):
        guess(client)
    assert guess(client, password="right") == 201
    for _ in range(WRONG):
        guess(client)
    assert guess(client, password="right") == 429
    clock.now += WINDOW_S
    assert guess(client, password="right") == 201


def test_many_names_take_no_memory() -> None:
    """Names and bodies are bounded."""
    client, _, asked = site()
    assert client.post("/token", content=b"x" * 100_000).status_code == 413
    throttle = Throttle(None)
    for number in range(REMEMBERED + 10):
        throttle._count(("127.0.0.1", str(number)))
    assert len(throttle._wrong) == REMEMBERED
    assert asked == []
