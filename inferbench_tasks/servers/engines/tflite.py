"""The engine that serves TFLite files with LiteRT."""

from __future__ import annotations

from typing import ClassVar

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.config import ServerConfig


class TfliteEngine:
    """One interpreter per instance, on the CPU, with the kernels that LiteRT takes by default (XNNPACK)."""

    run_name: ClassVar[str] = "interpreter.invoke"

    def __init__(self, config: ServerConfig) -> None:
        from inferbench_tasks.formats.tflite_runner import TfliteRunner

        if config.device != "cpu":
            raise RuntimeError(f"device {config.device} was asked for, and LiteRT is run on the CPU here")
        self._runner = TfliteRunner(config.model_path, config.threads, [spec.name for spec in config.outputs])

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        return self._runner.run(inputs)
