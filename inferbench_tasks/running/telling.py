"""Tells whoever watches how a stage goes: in the invocation's folder, and in PerfDB where nobody shares that folder."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.perfdb import progress
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.invocation import Invocation

#: So often progress goes to PerfDB: as often as a page that follows it looks.
EVERY_S = 1.0
#: A stage that ends waits no longer for its last word to be told.
LAST_S = 3.0


class Telling:
    """One stage's events. Nothing that is told to PerfDB holds the stage up: a thread of its own does it, and drops
    what comes faster than a second apart but for the newest.
    """

    def __init__(self, invocation: Invocation, db: PerfDB, run_id: str | None) -> None:
        self._invocation, self._db, self._run_id = invocation, db, run_id
        self._away = run_id is not None and os.environ.get(settings.PROGRESS) == settings.IN_PERFDB
        self._waiting: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None

    def __call__(self, **event: Any) -> None:
        """Tell it."""
        self._invocation.tell(**event)
        if not self._away:
            return
        with self._lock:
            if event["event"] == "progress" and self._waiting and self._waiting[-1]["event"] == "progress":
                self._waiting.pop()
            self._waiting.append({"t": time.time(), **event})
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="telling", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """The last word, as far as it can be told soon."""
        self._ends.set()
        if self._thread is not None:
            self._thread.join(LAST_S)

    def _run(self) -> None:
        ended = False
        while not ended:
            ended = self._ends.wait(EVERY_S)
            with self._lock:
                events, self._waiting = self._waiting, []
            if events and self._run_id is not None:
                progress.tell(self._db, self._run_id, events)
