"""A client on a library with coroutines: a task for each request. For reference, not for speed."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import Any

from inferbench_tasks.clients.base import BAD_RESPONSE, OK, Call, Client


class TaskClient(Client):
    """As many requests at once as ``in_flight_limit`` allows."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tasks: set[asyncio.Task[None]] = set()
        self.in_flight_limit = self.settings.connections

    @abstractmethod
    async def exchange(self, call: Call) -> tuple[str, bytes]:
        """Send a call and wait for its end: its status, and the answer as ``AnswerCheck`` takes it.

        Sets ``first_byte_ns`` and ``bytes_received`` as well as the library lets it.
        """

    def send(self, call: Call) -> bool:
        if len(self._tasks) >= self.in_flight_limit:
            return False
        call.sent_ns = time.monotonic_ns()
        task = self._loop.create_task(self._run(call))
        call.connection = task
        self._tasks.add(task)
        return True

    def want(self, waiting: int) -> None:
        """Nothing is to be done: the library opens connections by itself."""

    def abandon(self, call: Call) -> None:
        task, call.connection = call.connection, None
        if isinstance(task, asyncio.Task):
            task.cancel()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, call: Call) -> None:
        try:
            status, answer = await self.exchange(call)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.discard(task)
        done_ns = time.monotonic_ns()
        call.connection = None
        if status == OK:
            batch_size, size = call.payload.batch_size, len(answer)
            if not self._check.known(batch_size, size) and (
                problem := self._check.problem(batch_size, size, answer)
            ):
                status = BAD_RESPONSE
                self._sink.explain(status, problem)
        self._sink.finish(call, status, done_ns)
