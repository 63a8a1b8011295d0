"""Closed loop: a fixed number of users, each of which asks again once it was answered and has thought."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from inferbench_tasks.clients.base import Call, Payload
from inferbench_tasks.loadgen.dispatcher import Dispatcher
from inferbench_tasks.timing.timerfd import Timer

if TYPE_CHECKING:
    from inferbench_tasks.loadgen.sessions import Sessions


class ClosedLoop:
    """The users of one shard. A request is intended for the moment at which its user has thought to the end.

    With ``sessions`` each user goes through a conversation, and begins the next one once that is over.
    ``quota``: the most requests to send from ``quota_from_ns`` on; None for no limit. ``ended_ns``: when the last of
    the quota was sent; -1 until then.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dispatcher: Dispatcher,
        payloads: Sequence[Payload],
        *,
        users: int,
        think_time_ns: int,
        start_ns: int,
        end_ns: int,
        first_id: int,
        id_step: int,
        quota: int | None,
        quota_from_ns: int = 0,
        sessions: Sessions | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._payloads = payloads
        self._users = users
        self._think_time_ns = think_time_ns
        self._start_ns = start_ns
        self._end_ns = end_ns
        self._next_id = first_id
        self._id_step = id_step
        self._left = quota
        self._quota_from_ns = quota_from_ns
        self._thinking: deque[int] = deque()
        self._stopped = users == 0 or quota == 0
        self.ended_ns = -1
        self._timer = Timer(loop, self._wake)
        self._user = sessions.follow(self._answered) if sessions else dispatcher.listen(self._answered)

    @property
    def finished(self) -> bool:
        """Whether nothing more will be sent."""
        return self._stopped or time.monotonic_ns() >= self._end_ns

    def begin(self) -> None:
        """All users ask at the start."""
        self._thinking.extend([self._start_ns] * self._users)
        self._timer.at(self._start_ns)

    def stop(self) -> None:
        """End the loop: none of its users asks again."""
        self._stopped = True
        self._timer.close()

    def _answered(self, call: Call, status: str, done_ns: int) -> None:
        if self._think_time_ns or done_ns < 0:
            self._think(max(done_ns, 0) or time.monotonic_ns())
        else:
            self._ask(done_ns)

    def _think(self, since_ns: int) -> None:
        self._thinking.append(since_ns + self._think_time_ns)
        if len(self._thinking) == 1 and not self._stopped:
            self._timer.at(self._thinking[0])

    def _wake(self) -> None:
        thinking = self._thinking
        now_ns = time.monotonic_ns()
        while thinking and thinking[0] <= now_ns and not self._stopped:
            self._ask(thinking.popleft())
        if thinking and not self._stopped:
            self._timer.at(thinking[0])

    def _ask(self, intended_ns: int) -> None:
        if self._stopped or intended_ns >= self._end_ns:
            return
        if self._left is not None and intended_ns >= self._quota_from_ns:
            self._left -= 1
            if self._left <= 0:
                self.ended_ns = intended_ns
                self._stopped = True
        request_id = self._next_id
        self._next_id += self._id_step
        payload = self._payloads[request_id % len(self._payloads)]
        self._dispatcher.submit(Call(request_id, intended_ns, payload, self._user))
