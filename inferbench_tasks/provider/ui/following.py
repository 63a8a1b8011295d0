"""A run as it goes on, pushed to who watches it: server-sent events.

A watcher costs a look at the end of two files a second, and a question to PerfDB when a stage begins or ends; nothing
is asked of the device, its server or the senders. ``python -m benchmarks.watching`` measures it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import StreamingResponse

from inferbench_tasks import settings
from inferbench_tasks.perfdb import progress
from inferbench_tasks.perfdb.documents import RunDocument
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.provider.api.access import SeesLogs, Store, User
from inferbench_tasks.provider.api.runs import find
from inferbench_tasks.provider.ui.live import HEIGHT, TAIL_BYTES, WIDTH, Course, parsed
from inferbench_tasks.provider.ui.render import fragment
from inferbench_tasks.provider.ui.watchers import Watchers
from inferbench_tasks.strangers_folder import opened

router = APIRouter(include_in_schema=False)
TICK_S = 1.0
#: PerfDB is asked at least so often: a process that was killed tells of no end.
ASK_S = 10.0
#: After so long a watcher has to come again, which browsers do by themselves: with a login that still counts.
LONGEST_S = 300.0
#: Those served by one process at a time, in all and of one login; whoever comes later sees the page without it.
WATCHERS = Watchers(50, 20)
LOG_BYTES = 4096
#: Where the logs of a run lie in its folder.
_LOGS = ("*.log", "server/*.log")


@router.get("/api/runs/{run}/live", summary="A run as it goes on, as server-sent events")
async def follow(run: str, db: Store, user: User, sees_logs: SeesLogs) -> StreamingResponse:
    """``now``: the page's part that changes, as HTML; ``log``: the end of the newest log, for who may see tasks' logs;
    ``end``: once the run has ended.
    """
    record, _ = await asyncio.to_thread(find, db, run)
    if record is None:
        raise HTTPException(404, f"there is no record of the execution of {run!r}")
    return WATCHERS.stream(str(user.get_name()), _events(Watch(db, record, logs=sees_logs)))


async def _events(watch: Watch) -> AsyncIterator[str]:
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until and not server_ends():
        if watch.must_ask:
            await asyncio.to_thread(watch.ask)
        elif watch.away:
            await asyncio.to_thread(watch.look_away)
        ended = False
        for name, data in watch.news():
            ended = ended or name == "end"
            yield f"event: {name}\ndata: {json.dumps(data)}\n\n"
        if ended:
            return
        yield ":\n\n"  # who is gone is noticed by this
        await asyncio.sleep(TICK_S)


def server_ends() -> bool:
    """Whether uvicorn was told to end: it waits for open answers, and this one would have no end.

    Of an application only the lifespan is told, after that wait; what is known before is known to who handles SIGTERM.
    """
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))


class Watch:
    """What is new of one run since it was last looked at."""

    def __init__(self, db: PerfDB, record: RunDocument, *, logs: bool) -> None:
        self._db, self._record, self._logs = db, record, logs
        data_dir = settings.data_dir()
        self._path = data_dir / "invocations" / record.invocation_id / "events.jsonl"
        self._folder = data_dir / "runs" / record.run_id
        index = record.run_id.rpartition(".")[2]
        self._job = int(index) if index.isdecimal() else None
        self._at: int | None = None
        self._rest = b""
        self._course = Course()
        self._asked = -ASK_S
        self._told: list[dict[str, Any]] = []
        self._seen: set[str] = set()
        #: Whether another host tells of it, in PerfDB.
        self.away = False
        self._shown: dict[str, Any] = {}
        self._stage_changed = False

    @property
    def must_ask(self) -> bool:
        """Whether PerfDB knows something new, or may."""
        return self._stage_changed or time.monotonic() - self._asked >= ASK_S

    def ask(self) -> None:
        """Read the run's record again; it stays as it is where it was deleted meanwhile."""
        self._stage_changed, self._asked = False, time.monotonic()
        self._record = next(iter(self._db.find_runs({"_id": self._record.run_id})), self._record)
        self.look_away()

    def look_away(self) -> None:
        """Read what another host has told since."""
        events = progress.told(self._db, self._record.run_id)
        self.away = bool(events)
        self._told += [event for event in events if event["id"] not in self._seen]
        self._seen = {event["id"] for event in events}

    def news(self) -> Iterator[tuple[str, Any]]:
        """Pairs of an event's name and what it says; only what differs from what was said before."""
        told, self._told = self._told, []
        for event in [*self._new_events(), *told]:
            if event.get("job") == self._job:
                self._course.add(event)
                self._stage_changed |= event.get("event") in ("start", "end")
        if self._record.status != "running":
            yield "end", self._record.status
            return
        html = fragment(
            "live_now.html",
            live=self._course.live(),
            live_size=(WIDTH, HEIGHT),
            stages=stages_of(self._record),
        )
        yield from self._if_new("now", html)
        if self._logs:
            yield from self._if_new("log", log_end(self._folder))

    def _if_new(self, name: str, data: Any) -> Iterator[tuple[str, Any]]:
        if data is not None and self._shown.get(name) != data:
            self._shown[name] = data
            yield name, data

    def _new_events(self) -> list[dict[str, Any]]:
        """Those that were written since; at first those at the end of the file."""
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                first = self._at is None
                start = max(0, size - TAIL_BYTES) if self._at is None else min(self._at, size)
                file.seek(start)
                text = self._rest + file.read(TAIL_BYTES)
                self._at = file.tell()
        except OSError:
            return []
        lines = text.split(b"\n")
        self._rest = lines.pop()[-TAIL_BYTES:]
        return list(parsed(lines[1:] if first and start else lines))


def stages_of(record: RunDocument) -> list[Any]:
    """Its stages in the order of time."""
    return sorted(record.stages, key=lambda stage: stage.started_at)


def log_end(folder: Path) -> dict[str, str] | None:
    """``name`` and the last lines ``text`` of the log that was written to last; None without one.

    What is run there may put anything in its folder: only plain files are read, through no link.
    """
    newest: tuple[float, Path] | None = None
    for pattern in _LOGS:
        for path in folder.glob(pattern):
            try:
                of = path.lstat()
            except OSError:  # removed meanwhile
                continue
            if stat.S_ISREG(of.st_mode) and of.st_size and not path.parent.is_symlink():
                newest = max(newest or (0.0, path), (of.st_mtime, path))
    if newest is None:
        return None
    path = newest[1]
    try:
        with opened(path, within=folder) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_BYTES))
            text = file.read(LOG_BYTES).decode(errors="replace")
    except OSError:
        return None
    if size > LOG_BYTES:
        text = text.partition("\n")[2] or text
    plain = "".join(of for of in text if of.isprintable() or of in "\n\t")
    return {"name": str(path.relative_to(folder)), "text": plain}
