"""The engine that serves plans with TensorRT on an NVIDIA GPU."""

from __future__ import annotations

from typing import ClassVar

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig


class TensorRtEngine:
    """One execution context per instance."""

    run_name: ClassVar[str] = "context.execute"

    def __init__(self, config: ServerConfig) -> None:
        from inferbench_tasks.formats.tensorrt_engine import TensorRtRunner

        self._runner = TensorRtRunner(config.model_path, [spec.name for spec in config.outputs])

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        return self._runner.run(inputs)
