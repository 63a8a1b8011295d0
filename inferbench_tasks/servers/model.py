"""The served model: loaded in the background, then asked through its scheduler."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.protocols.problem import RequestProblem
from inferbench_tasks.servers.config import ServerConfig
from inferbench_tasks.servers.engines.base import ENGINES, Engine, TellsLayers
from inferbench_tasks.servers.processing import ServerProcessing
from inferbench_tasks.servers.scheduler import Execution, Scheduler
from inferbench_tasks.servers.shared_memory import Regions
from inferbench_tasks.servers.signature import Signature, Tensor
from inferbench_tasks.servers.sources.base import LayerSource
from inferbench_tasks.servers.statistics import Statistics
from inferbench_tasks.servers.tracing import Recorder, TracedEngine

log = logging.getLogger(__name__)

#: A dynamic size of an input is this long in a warm-up run.
WARMUP_SIZE = 8


class ServedModel:
    """``ready`` once the model is loaded and warmed up; until then ``submit`` refuses."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.name = config.model_name
        self.version = config.model_version
        steps = config.processing
        self.signature = Signature(
            steps.sent if steps else config.inputs,
            steps.answered if steps else config.outputs,
            config.batch_size,
        )
        self.processing: ServerProcessing | None = None
        self.statistics = Statistics()
        self.regions = Regions(config.shared_memory)
        self.scheduler: Scheduler | None = None
        self.load_ns = -1
        asked = config.tracing
        #: Who is told of traced requests; None where nobody asked.
        self.recorder = Recorder(Path(asked.path), framework=asked.framework) if asked else None
        self._engines: list[Engine] = []

    @property
    def ready(self) -> bool:
        """Whether the model can be asked."""
        return self.scheduler is not None

    def load(self) -> None:
        """Load one engine per instance and warm each up; raises what the runtime raises."""
        started = time.monotonic_ns()
        if self.config.processing is not None:
            self.processing = ServerProcessing(self.config, self.statistics)
        factory = ENGINES.load(self.config.engine)
        engines: list[Engine] = [factory(self.config) for _ in range(self.config.instances)]
        for engine in engines:
            for _ in range(self.config.warmup_runs):
                engine.run(self._zeros())
        self.load_ns = time.monotonic_ns() - started
        self._engines = engines
        if self.recorder is not None and self.recorder.framework:
            engines = [TracedEngine(engine, self.recorder, _source(engine)) for engine in engines]
        self.scheduler = Scheduler(engines, self.config.batching, self.statistics)
        log.info("model ready name=%s load_ms=%.1f", self.name, self.load_ns / 1e6)

    async def execute(self, arrays: dict[str, Array], rows: int) -> Execution:
        """Queue a request and wait, off the event loop, between the processors that run here; RequestProblem while the
        model is not ready."""
        if self.scheduler is None:
            raise RequestProblem(f"model {self.name} is still loading", status=503)
        if self.processing is None:
            return await self._infer(arrays, rows)
        arrays, before = await self.processing.before(arrays, rows)
        execution = await self._infer(arrays, rows)
        execution.before = before
        if execution.outputs is not None:
            execution.outputs, execution.after = await self.processing.after(execution.outputs)
        return execution

    async def _infer(self, arrays: dict[str, Array], rows: int) -> Execution:
        assert self.scheduler is not None
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()

        def wake(_: Execution) -> None:
            loop.call_soon_threadsafe(_wake, future)

        execution = Execution(arrays, rows, wake)
        self.scheduler.submit(execution)
        await future
        return execution

    def close(self) -> None:
        """Finish what is queued, end the model's threads, write down what was traced."""
        if self.scheduler is not None:
            self.scheduler.close()
        if self.processing is not None:
            self.processing.close()
        if self.recorder is not None:
            sources = (_source(engine) for engine in self._engines)
            self.recorder.write([source for source in sources if source is not None])

    def metadata(self) -> dict[str, Any]:
        """The model's metadata, as the protocol tells them."""
        return {
            "name": self.name,
            "versions": [self.version],
            "platform": self.config.engine,
            "inputs": [tensor.metadata() for tensor in self.signature.inputs.values()],
            "outputs": [tensor.metadata() for tensor in self.signature.outputs.values()],
        }

    def _zeros(self) -> dict[str, Array]:
        zeros: dict[str, Array] = {}
        for tensor in map(Tensor.of, self.config.inputs):  # the model's own, whatever clients send
            shape = [
                self.config.batch_size or 1,
                *(WARMUP_SIZE if size == -1 else size for size in tensor.shape[1:]),
            ]
            zeros[tensor.name] = (
                np.full(shape, b"", dtype=np.object_)
                if tensor.datatype == "BYTES"
                else np.zeros(shape, tensor.dtype)
            )
        return zeros


def _source(engine: Engine) -> LayerSource | None:
    return engine.source if isinstance(engine, TellsLayers) else None


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():  # the client may have gone away
        future.set_result(None)
