"""Parts of pages for many who look at them at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import HTTPException

from inferbench_tasks.errors import PerfDBError
from inferbench_tasks.provider.ui import pushed
from inferbench_tasks.provider.ui.watchers import Watchers

DB: Any = SimpleNamespace(uri="a stand-in that nothing is asked of")


def test_all_who_look_wait_for_one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """While PerfDB is away a hundred streams cost one try in one thread, and who comes within a tick none: all end
    without an event.
    """
    tried, may_fail = [], Event()

    def values(db: Any) -> Any:
        tried.append(db)
        assert may_fail.wait(60)
        raise PerfDBError("PerfDB is away")

    monkeypatch.setitem(pushed.PARTS, "home", ("home_now.html", values))
    monkeypatch.setattr(pushed, "TICK_S", 3600.0)

    async def all_told() -> list[str]:
        asyncio.get_running_loop().call_later(0.05, may_fail.set)

        async def seen() -> list[str]:
            return [event async for event in pushed.events(pushed.part("home", DB))]

        first = await asyncio.gather(*(seen() for _ in range(100)))
        return [event for of in (*first, await seen()) for event in of]

    assert asyncio.run(all_told()) == []
    assert tried == [DB]


def test_a_failed_try_is_made_again_after_a_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """PerfDB that comes back is asked again."""
    failures = [PerfDBError("PerfDB is away")]

    def rendered(of: pushed.Part) -> str:
        if failures:
            raise failures.pop()
        return "all is well"

    monkeypatch.setattr(pushed.Part, "_rendered", rendered)
    monkeypatch.setattr(pushed, "TICK_S", 0.0)

    async def twice() -> str:
        of = pushed.Part("home", DB)
        with pytest.raises(PerfDBError):
            await of.html()
        return await of.html()

    assert asyncio.run(twice()) == "all is well"


def test_who_leaves_ends_the_try_for_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two is cancelled while both wait: the other gets the part."""
    may_go = Event()

    def rendered(of: pushed.Part) -> str:
        assert may_go.wait(60)
        return "made"

    monkeypatch.setattr(pushed.Part, "_rendered", rendered)

    async def two() -> str:
        of = pushed.Part("home", DB)
        leaves, stays = asyncio.create_task(of.html()), asyncio.create_task(of.html())
        await asyncio.sleep(0)
        leaves.cancel()
        await asyncio.sleep(0)
        may_go.set()
        return await stays

    assert asyncio.run(two()) == "made"


def test_watchers_are_counted_from_the_answer_s_beginning_to_its_end() -> None:
    """Two streams of a login of two, before any has sent its first event, leave no third; three of all leave no fourth.
    Streams that ended, or whose client was gone before the first event, count no more.
    """
    watchers = Watchers(3, 2)

    async def events() -> AsyncIterator[str]:
        yield ":\n\n"

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            raise OSError("the client is gone")

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def counted() -> None:
        streams = [watchers.stream(login, events()) for login in ("ann", "ann", "bob")]
        for login, status in (("ann", 503), ("carl", 503)):
            with pytest.raises(HTTPException) as refused:
                watchers.stream(login, events())
            assert refused.value.status_code == status
        with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever Starlette makes of a client that is gone
            await streams.pop()({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)
        assert len(watchers) == 2
        with pytest.raises(HTTPException) as refused:
            watchers.stream("ann", events())
        assert refused.value.status_code == 429
        for stream in streams:
            await stream({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, _nothing)

    asyncio.run(counted())
    assert len(watchers) == 0


async def _nothing(message: Any) -> None:
    """A client that takes whatever is sent."""
