"""A client on a library with coroutines: a task for each request. For reference, not for speed."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from typing import Any, ClassVar

from inferbench_tasks.clients.answers import Outputs
from inferbench_tasks.clients.base import BAD_RESPONSE, OK, Call, Client, ClientSettings
from inferbench_tasks.extras import require


class TaskClient(Client):
    """As many requests at once as ``in_flight_limit`` allows."""

    #: The optional part of InferBench that brings the library.
    extra: ClassVar[str | None]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        if self.extra:
            require(self.extra)
        self._tasks: set[asyncio.Task[None]] = set()
        self.in_flight_limit = self.settings.connections

    @abstractmethod
    async def exchange(self, call: Call) -> tuple[str, bytes | Outputs]:
        """Send a call and wait for its end: its status, and the answer as it came or as the library has read it.

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
            problem = self.problem(call, answer)
            if problem:
                status = BAD_RESPONSE
                self._sink.explain(status, problem)
        self._sink.finish(call, status, done_ns)

    def problem(self, call: Call, answer: bytes | Outputs) -> str | None:
        """What is wrong with an answer; None if it is good."""
        batch_size = call.payload.batch_size
        size = len(answer) if isinstance(answer, bytes) else call.bytes_received
        return None if self._check.known(batch_size, size) else self._check.problem(batch_size, size, answer)


async def knock(settings: ClientSettings) -> None:
    """ConnectionError unless somebody listens at the endpoint; for libraries that connect at their first request."""
    endpoint = settings.endpoint
    opening = asyncio.open_connection(endpoint.host, endpoint.port)
    try:
        _, writer = await asyncio.wait_for(opening, settings.connect_timeout_s)
    except OSError as error:
        raise ConnectionError(f"no connection to {endpoint.url}: {error or 'no answer in time'}") from error
    writer.close()
