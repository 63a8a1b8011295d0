"""The parts of pages that follow what happens, pushed to who looks at them: server-sent events.

A part is made at most once in ``TICK_S`` for all who look at it, and sent to each only where it differs from what that
one has: PerfDB is asked as much for one watcher as for a hundred, and not at all where nobody looks. Where it can't be
made, all are told by the end of their stream; browsers come again by themselves.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from fastapi import APIRouter, HTTPException
from fastapi.responses import StreamingResponse

from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store, User
from inferbench_tasks.provider.ui.cluster_page import cluster_part
from inferbench_tasks.provider.ui.following import LONGEST_S, server_ends
from inferbench_tasks.provider.ui.home import home_part
from inferbench_tasks.provider.ui.render import fragment
from inferbench_tasks.provider.ui.watchers import Watchers

router = APIRouter(include_in_schema=False)
TICK_S = 2.0
#: Those served by one process at a time, in all and of one login; whoever comes later asks again now and then.
WATCHERS = Watchers(100, 20)
#: Page -> its part's template, and what that is made of.
PARTS: Mapping[str, tuple[str, Callable[[PerfDB], Mapping[str, Any]]]] = {
    "home": ("home_now.html", home_part),
    "cluster": ("cluster_now.html", cluster_part),
}
_log = logging.getLogger(__name__)
#: Event loop -> PerfDB and part -> what is made for all who look at it.
_parts: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, str], Part]] = WeakKeyDictionary()


@router.get("/api/pages/{name}/live", summary="The part of a page that changes, as server-sent events")
async def follow(name: str, db: Store, user: User) -> StreamingResponse:
    """``now``: the part as HTML, at once and whenever it changes."""
    if name not in PARTS:
        raise HTTPException(404, f"no page {name[:50]!r} follows what happens; there are: {', '.join(PARTS)}")
    return WATCHERS.stream(str(user.get_name()), events(part(name, db)))


async def events(of: Part) -> AsyncIterator[str]:
    """What one who looks at a part is sent."""
    until, shown = time.monotonic() + LONGEST_S, ""
    while time.monotonic() < until and not server_ends():
        try:
            html = await of.html()
        except InferBenchError:  # it was logged where it was made
            return
        # Who is gone is noticed by a comment.
        yield ":\n\n" if html == shown else f"event: now\ndata: {json.dumps(html)}\n\n"
        shown = html
        await asyncio.sleep(TICK_S)


class Part:
    """A part for all who look at it: one thread at most makes it, whoever asks meanwhile waits for the same."""

    def __init__(self, name: str, db: PerfDB) -> None:
        self._name, self._db = name, db
        self._made_at = float("-inf")
        self._making: asyncio.Task[str] | None = None

    async def html(self) -> str:
        """At most ``TICK_S`` old; raises what the last try raised, for as long."""
        # 0.9: a tick is never waited for twice.
        if self._making is None or (self._making.done() and time.monotonic() - self._made_at >= TICK_S * 0.9):
            self._making = asyncio.create_task(self._make())
        return await asyncio.shield(self._making)  # who leaves ends it for nobody else

    async def _make(self) -> str:
        try:
            return await asyncio.to_thread(self._rendered)
        except InferBenchError as error:
            _log.warning("The part of the page %s can't be made: %s", self._name, error)
            raise
        finally:
            self._made_at = time.monotonic()

    def _rendered(self) -> str:
        template, values = PARTS[self._name]
        return fragment(template, **values(self._db))


def part(name: str, db: PerfDB) -> Part:
    """The one of all who look at it by this event loop."""
    parts = _parts.setdefault(asyncio.get_running_loop(), {})
    return parts.setdefault((db.uri, name), Part(name, db))
