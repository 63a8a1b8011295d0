"""Processors inside the server: off the event loop, before a request is queued and after it was executed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from inferbench_tasks.errors import InputError
from inferbench_tasks.processors.pipeline import RAW, Pipeline
from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.scheduler import Processed
from inferbench_tasks.servers.statistics import Statistics

Result = TypeVar("Result")


class ServerProcessing:
    """As many requests at a time as there are instances of the model; the others wait, and that counts too.

    Times are those that a request sees: its own work and its wait for a thread.
    """

    def __init__(self, config: ServerConfig, statistics: Statistics) -> None:
        assert config.processing is not None
        steps = config.processing
        self._has_before, self._has_after = bool(steps.before), bool(steps.after)
        self._pipeline = Pipeline(steps.before, steps.after, [spec.name for spec in config.inputs])
        self._statistics = statistics
        self._threads = ThreadPoolExecutor(config.instances, thread_name_prefix="processors")

    async def before(self, arrays: dict[str, Array], rows: int) -> tuple[dict[str, Array], Processed | None]:
        """The model's inputs and when they were made, None where nothing is to be done. RequestProblem where a sample
        can't be processed."""
        if not self._has_before:
            return arrays, None
        inputs, processed = await self._do(lambda: self._pipeline.before(arrays[RAW]))
        for name, array in inputs.items():
            if len(array) != rows:
                raise RequestProblem(
                    f"inputs.{name}: the processors gave {len(array)} rows for {rows} samples"
                )
        return inputs, processed

    async def after(self, outputs: dict[str, Array]) -> tuple[dict[str, Array], Processed | None]:
        """What the user gets and when it was made, None where nothing is to be done."""
        if not self._has_after:
            return outputs, None
        return await self._do(lambda: self._pipeline.after(outputs))

    async def _do(self, work: Callable[[], tuple[Result, dict[str, int]]]) -> tuple[Result, Processed]:
        started_ns = time.monotonic_ns()
        try:
            result, worked_ns = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except InputError as error:
            raise RequestProblem(f"inputs.{RAW}: {error}") from error
        self._statistics.processed(worked_ns)
        return result, Processed(started_ns, time.monotonic_ns(), worked_ns)

    def close(self) -> None:
        """End the threads that decode and encode."""
        self._threads.shutdown(wait=False, cancel_futures=True)
