"""Messages that a broker gave to a worker which then lost them.

A worker fetches a few messages ahead. If it is killed, or the broker is, Redis gives them to nobody else until the
visibility timeout is over, which has to be longer than any task: their tasks would be queued for days.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

#: A message is looked for once its task should have started, and is lost when it was missing so many times.
EXPECTED_S, TIMES = 20.0, 2
REPLY_S = 1.0


class Messages:
    """Where the messages of a Celery application are."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def missing(self, queue_of: Mapping[str, str]) -> set[str]:
        """Those of these messages (Celery id -> queue) that no worker has and no queue holds."""
        at_workers = set()
        inspect = self._app.control.inspect(timeout=REPLY_S)
        for reply in (inspect.active(), inspect.reserved()):
            at_workers |= {task["id"] for tasks in (reply or {}).values() for task in tasks}
        with self._app.connection_for_read() as connection:
            client = getattr(connection.default_channel, "client", None)
            if client is None:
                return set()  # no Redis: a broker that knows when its client has gone
            waiting = b"".join(m for queue in set(queue_of.values()) for m in client.lrange(queue, 0, -1))
        return {
            message for message in queue_of if message not in at_workers and message.encode() not in waiting
        }


class Sent:
    """The tasks that were sent and may not have started."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since: dict[Any, float] = {}
        self._missed: dict[Any, int] = {}

    def add(self, keys: Iterable[Any]) -> None:
        """These were sent, or adopted, just now."""
        now = self._now()
        for key in keys:
            self._since[key] = now
            self._missed.pop(key, None)

    def overdue(self, keys: Iterable[Any]) -> list[Any]:
        """Those that should have started; all that the executor does not know any more is forgotten."""
        self._since = {key: self._since[key] for key in keys if key in self._since}
        now = self._now()
        return [key for key, since in self._since.items() if now - since > EXPECTED_S]

    def lost(self, looked_for: Iterable[Any], missing: set[Any]) -> list[Any]:
        """Those that were missing often enough."""
        overdue = []
        for key in looked_for:
            self._missed[key] = self._missed.get(key, 0) + 1 if key in missing else 0
            if self._missed[key] >= TIMES:
                del self._missed[key]
                overdue.append(key)
        return overdue
