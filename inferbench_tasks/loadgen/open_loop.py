"""Open loop: requests leave at their times, whatever the server does."""

from __future__ import annotations

import array
import asyncio
import time
from collections.abc import Sequence

from inferbench_tasks.clients.base import Call, Payload
from inferbench_tasks.loadgen.dispatcher import Dispatcher
from inferbench_tasks.timing.timerfd import Timer

#: At most so many at one wake-up; then the loop looks after answers before it goes on.
_BURST = 128


class OpenLoop:
    """Sends all that is due at each wake-up. The schedule is absolute: a backlog never moves it.

    ``intended_ns`` ascends, on CLOCK_MONOTONIC; ids count from ``first_id`` in steps of ``id_step``.
    ``user``: who is told of their ends (``Dispatcher.listen``).
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dispatcher: Dispatcher,
        payloads: Sequence[Payload],
        intended_ns: array.array[int],
        first_id: int,
        id_step: int,
        user: int = 0,
    ) -> None:
        self._submit = dispatcher.submit
        self._payloads = payloads
        self._intended_ns = intended_ns
        self._first_id = first_id
        self._id_step = id_step
        self._user = user
        self._next = 0
        self._stopped = False
        self._timer = Timer(loop, self._wake)

    @property
    def finished(self) -> bool:
        """Whether nothing more will be sent."""
        return self._stopped or self._next >= len(self._intended_ns)

    def begin(self) -> None:
        """Arm the timer for the first request."""
        if self._intended_ns:
            self._timer.at(self._intended_ns[0])

    def stop(self) -> None:
        """End the loop: no further request is sent."""
        self._stopped = True
        self._timer.close()

    def _wake(self) -> None:
        if self._stopped:
            return
        intended, payloads, user = self._intended_ns, self._payloads, self._user
        index, end, count = self._next, len(intended), len(payloads)
        limit = min(end, index + _BURST)
        now_ns = time.monotonic_ns()
        while index < limit and intended[index] <= now_ns:
            request_id = self._first_id + index * self._id_step
            self._submit(Call(request_id, intended[index], payloads[request_id % count], user))
            index += 1
        self._next = index
        if index < end:
            self._timer.at(intended[index])
