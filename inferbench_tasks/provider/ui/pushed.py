"""The parts of pages that follow what happens, pushed to who looks at them: server-sent events.

A part is made at most once in ``TICK_S`` for all who look at it, and sent to each only where it differs from what that
one has: PerfDB is asked as much for one watcher as for a hundred, and not at all where nobody looks.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import StreamingResponse

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.ui.cluster_page import cluster_part
from inferbench_tasks.provider.ui.following import LONGEST_S, server_ends
from inferbench_tasks.provider.ui.home import home_part
from inferbench_tasks.provider.ui.render import fragment

router = APIRouter(include_in_schema=False)
TICK_S = 2.0
#: How many are served by one process at a time; whoever comes later asks again now and then.
MOST_WATCHERS = 100
#: Page -> its part's template, and what that is made of.
PARTS: Mapping[str, tuple[str, Callable[[PerfDB], Mapping[str, Any]]]] = {
    "home": ("home_now.html", home_part),
    "cluster": ("cluster_now.html", cluster_part),
}
_watching: set[object] = set()


@router.get("/api/pages/{name}/live", summary="The part of a page that changes, as server-sent events")
async def follow(name: str, db: Store) -> StreamingResponse:
    """``now``: the part as HTML, at once and whenever it changes."""
    if name not in PARTS:
        raise HTTPException(404, f"no page {name[:50]!r} follows what happens; there are: {', '.join(PARTS)}")
    if len(_watching) >= MOST_WATCHERS:
        raise HTTPException(503, f"{MOST_WATCHERS} follow pages already: reload yours now and then")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # nginx would hold the events back
    return StreamingResponse(_events(name, db), media_type="text/event-stream", headers=headers)


async def _events(name: str, db: PerfDB) -> AsyncIterator[str]:
    until, shown, me = time.monotonic() + LONGEST_S, "", object()
    _watching.add(me)
    try:
        while time.monotonic() < until and not server_ends():
            html = await asyncio.to_thread(part, name, db)
            # Who is gone is noticed by a comment.
            yield ":\n\n" if html == shown else f"event: now\ndata: {json.dumps(html)}\n\n"
            shown = html
            await asyncio.sleep(TICK_S)
    finally:
        _watching.discard(me)


@dataclass
class _Made:
    """A part as it was made last, for all who look at it."""

    lock: Lock
    at: float = float("-inf")
    html: str = ""


_made: dict[tuple[str, str], _Made] = {}


def part(name: str, db: PerfDB) -> str:
    """The part's HTML, at most ``TICK_S`` old."""
    made = _made.setdefault((db.uri, name), _Made(Lock()))
    with made.lock:
        if time.monotonic() - made.at >= TICK_S * 0.9:  # a tick is never waited for twice
            template, values = PARTS[name]
            made.html, made.at = fragment(template, **values(db)), time.monotonic()
        return made.html
