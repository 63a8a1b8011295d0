"""Conversations while they go on: a turn follows the answer before it, with all that was said so far.

A turn is intended for the moment at which its user had the answer and thought to the end. Its request can't be bytes
before the load begins: it is made of the answer that came, which is why that one alone is decoded while the load runs.
"""

from __future__ import annotations

import array
import asyncio
import heapq
import time
from typing import Any

import numpy as np
import orjson

from inferbench_tasks.clients.base import OK, Call, Payload
from inferbench_tasks.clients.openai_form import request_bytes
from inferbench_tasks.clients.stream_file import Streams
from inferbench_tasks.loadgen.dispatcher import Dispatcher, Listener
from inferbench_tasks.loadgen.payloads import read_inputs
from inferbench_tasks.loadgen.plan import LoadPlan
from inferbench_tasks.loadgen.token_streams import read_whole
from inferbench_tasks.timing.timerfd import Timer


class Overheard(Streams):
    """Keeps streams where they are kept anyway, and the bytes of each until its session takes them."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._bodies: dict[int, bytearray] = {}

    def keep(self, request_id: int, reads: array.array[int], body: bytearray) -> None:
        self._streams.keep(request_id, reads, body)
        self._bodies.setdefault(request_id, bytearray()).extend(body)

    def take(self, request_id: int) -> bytes:
        """What came of it; it is forgotten here."""
        return bytes(self._bodies.pop(request_id, b""))


class Sessions:
    """The conversations of one shard. ``first_turns``: what their first turns send, in the order of the load.

    A request's number tells session and turn, see ``LoadPlan.turn_step``. A session ends with its last turn, with an
    answer that is none; no turn comes after ``end_ns``.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dispatcher: Dispatcher,
        plan: LoadPlan,
        heard: Overheard,
    ) -> None:
        inputs = read_inputs(plan.inputs_path)
        self._dispatcher = dispatcher
        self._plan = plan
        self._heard = heard
        #: The load's end, once it is known.
        self.end_ns = 0
        self._bodies: list[bytes] = inputs["request"].tolist()
        self._max_tokens: list[int] = inputs["max_tokens"].tolist()
        self._conversation: list[int] = inputs["conversation"].tolist()
        self._think_ns: list[int] = inputs["think_ns"].tolist()
        self.first_turns = self._first_turns()
        #: Of each session that goes on: what was said so far.
        self._said: dict[int, list[dict[str, Any]]] = {}
        self._thinking: list[tuple[int, int, Call]] = []
        self._stopped = False
        self._timer = Timer(loop, self._wake)

    def _first_turns(self) -> list[Payload]:
        numbers = np.array(self._conversation)
        rows = np.flatnonzero(np.diff(numbers, prepend=-1))
        order = np.random.default_rng([self._plan.seed, 0x5A11]).permutation(len(rows))
        return [self._payload(row, self._bodies[row]) for row in rows[order].tolist()]

    def _payload(self, row: int, body: bytes) -> Payload:
        assert self._plan.stream is not None
        return Payload(request_bytes(self._plan.endpoint, self._plan.stream, body), row, 1)

    @property
    def finished(self) -> bool:
        """Whether no turn is still to come of an answer that has come."""
        return self._stopped or not self._thinking

    def begin(self) -> None:
        """Nothing: turns follow answers."""

    def stop(self) -> None:
        """No session goes on."""
        self._stopped = True
        self._timer.close()

    def follow(self, then: Listener | None = None) -> int:
        """The ``user`` of calls that begin sessions; ``then`` is told of the end of each session's last call."""

        def ended(call: Call, status: str, done_ns: int) -> None:
            if not self._goes_on(call, status, done_ns, user) and then is not None:
                then(call, status, done_ns)

        user = self._dispatcher.listen(ended)
        return user

    def _goes_on(self, call: Call, status: str, done_ns: int, user: int) -> bool:
        body = self._heard.take(call.request_id)
        session = call.request_id % self._plan.turn_step
        said = self._said.pop(session, None)
        row = call.payload.sample_index
        after = row + 1
        if status != OK or self._stopped:
            return False
        if after >= len(self._bodies) or self._conversation[after] != self._conversation[row]:
            return False
        intended_ns = done_ns + self._think_ns[after]
        if intended_ns >= self.end_ns:
            return True  # its user thinks until the load is over
        stream = read_whole(body, self._max_tokens[row], with_answer=True)
        if stream.problem is not None or stream.answer is None:
            return False
        if said is None:
            said = orjson.loads(self._bodies[row])["messages"]
        fields = orjson.loads(self._bodies[after])
        said += [{"role": "assistant", "content": "".join(stream.answer)}, *fields["messages"]]
        self._said[session] = said
        payload = self._payload(after, orjson.dumps({**fields, "messages": said}))
        turn = Call(call.request_id + self._plan.turn_step, intended_ns, payload, user)
        heapq.heappush(self._thinking, (intended_ns, turn.request_id, turn))
        if self._thinking[0][2] is turn:
            self._timer.at(intended_ns)
        return True

    def _wake(self) -> None:
        thinking = self._thinking
        now_ns = time.monotonic_ns()
        while thinking and thinking[0][0] <= now_ns and not self._stopped:
            self._dispatcher.submit(heapq.heappop(thinking)[2])
        if thinking and not self._stopped:
            self._timer.at(thinking[0][0])
