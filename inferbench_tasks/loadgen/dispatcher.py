"""The one place that every request passes: handed to the client, given a deadline, recorded when it ends."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable

from inferbench_tasks.clients.base import CANCELLED, CONNECTION, OK, TIMEOUT, Call, Client, Sink
from inferbench_tasks.loadgen.layout import DROPPED, MEASURE
from inferbench_tasks.loadgen.spool import Recorder
from inferbench_tasks.protocols.spans import NOT_TOLD

_MAX_EXPLAINED = 20
#: Told of a call that ended, its status and its end (ns; -1 where it has none).
Listener = Callable[[Call, str, int], None]


class Dispatcher(Sink):
    """Calls that find no room wait here, in order; those that wait or fly too long are ended.

    ``outstanding``: submitted and not ended. ``explanations``: for each kind of failure the first words
    of whoever caused it.
    """

    def __init__(self, recorder: Recorder, timeout_ns: int, *, spans: bool = False) -> None:
        self._recorder = recorder
        self._append = recorder.append
        self._timeout_ns = timeout_ns
        self._spans = spans
        self._waiting: deque[Call] = deque()
        self._flying: deque[Call] = deque()
        self.client: Client
        self.outstanding = 0
        #: Where a call's ``user`` says whose it is: told when it ends. Index 0 is nobody.
        self.listeners: list[Listener | None] = [None]
        #: False for a load whose requests all wait for their turn from the start: they have until its end.
        self.drops = True
        #: The most that are under way at once, beside what the client has room for.
        self.limit = sys.maxsize
        self.explanations: dict[str, str] = {}

    def listen(self, listener: Listener) -> int:
        """Tell it of the end of every call whose ``user`` is the number that is returned."""
        self.listeners.append(listener)
        return len(self.listeners) - 1

    def submit(self, call: Call) -> None:
        """Send now or as soon as there is room."""
        self.outstanding += 1
        if not self._waiting and self.outstanding <= self.limit and self.client.send(call):
            self._flying.append(call)
        else:
            self._waiting.append(call)
            self.client.want(len(self._waiting))

    def finish(self, call: Call, status: str, done_ns: int) -> None:
        if call.done:
            return
        call.done = True
        self.outstanding -= 1
        payload = call.payload
        code = 0 if status is OK else self._recorder.status_code(status)
        self._append(
            call.request_id, MEASURE, call.intended_ns, call.sent_ns, call.first_byte_ns, done_ns, code,
            len(payload.wire), call.bytes_received, payload.sample_index, payload.batch_size,
            (*(call.server_spans or NOT_TOLD), *call.client_spans) if self._spans else None,
        )  # fmt: skip
        if self._waiting:
            self.ready()
        listener = self.listeners[call.user]
        if listener is not None:
            listener(call, status, done_ns)

    def ready(self) -> None:
        waiting = self._waiting
        while waiting and self.outstanding - len(waiting) < self.limit:
            call = waiting[0]
            first_time = call.sent_ns < 0
            if call.done:
                waiting.popleft()  # its time ran out before it could be sent once more
            elif not self.client.send(call):
                self.client.want(len(waiting))
                return
            else:
                waiting.popleft()
                if first_time:
                    self._flying.append(call)

    def again(self, call: Call) -> None:
        if not call.done:
            self._waiting.appendleft(call)
            self.ready()

    def unreachable(self, reason: str) -> None:
        self.explain(CONNECTION, reason)
        waiting, self._waiting = self._waiting, deque()
        now_ns = time.monotonic_ns()
        for call in waiting:
            self.finish(call, CONNECTION, now_ns)

    def explain(self, status: str, text: str) -> None:
        if status not in self.explanations and len(self.explanations) < _MAX_EXPLAINED:
            self.explanations[status] = text

    def expire(self, now_ns: int) -> None:
        """End what has been under way, or has waited, for longer than the timeout."""
        limit_ns = now_ns - self._timeout_ns
        flying = self._flying
        while flying and (flying[0].done or (self.drops and flying[0].sent_ns <= limit_ns)):
            call = flying.popleft()
            if not call.done:
                self.client.abandon(call)
                self.finish(call, TIMEOUT, now_ns)
        waiting = self._waiting
        while self.drops and waiting and waiting[0].intended_ns <= limit_ns:
            call = waiting.popleft()
            if call.sent_ns < 0:
                self.finish(call, DROPPED, -1)

    def drop_waiting(self) -> None:
        """Give up what has not been sent."""
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            self.finish(call, DROPPED, -1)

    def cancel(self) -> None:
        """End everything now; what is under way has no end of its own."""
        self.drop_waiting()
        flying, self._flying = self._flying, deque()
        for call in flying:
            if not call.done:
                self.client.abandon(call)
                self.finish(call, CANCELLED, -1)
