"""An engine whose runs are recorded, with runs that fail among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from inferbench_tasks.protocols.datatypes import Array
from inferbench_tasks.servers.engines.base import ENGINES
from inferbench_tasks.servers.tracing import Recorder, TracedEngine


class Engine:
    """Refuses negative numbers, as a runtime refuses what does not fit."""

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        """The same numbers."""
        if min(inputs["x"].tolist()) < 0:
            raise ValueError("negative")
        return inputs


class Source:
    """An instrument that can be on once: the second start without a stop is an error, as of TensorFlow's profiler."""

    title: ClassVar[str] = "one at a time"
    engines: ClassVar[tuple[str, ...]] = ("any",)
    tells: ClassVar[str] = "how often it was on"

    def __init__(self) -> None:
        self.on, self.runs, self.lost = False, 0, 0
        self.failed: list[int] = []
        self.sampling = {"runs": 2, "left_out": 1, "lost": 7}

    @classmethod
    def unavailable(cls) -> str | None:
        """It is always there."""
        return None

    def start(self) -> None:
        """On."""
        assert not self.on, "it is on already"
        self.on = True

    def stop(self, start_ns: int, end_ns: int) -> None:
        """Off."""
        assert self.on and start_ns <= end_ns
        self.on, self.runs = False, self.runs + 1

    def raised(self) -> None:
        """Which one it was."""
        assert not self.on
        self.failed.append(self.runs)

    def spans(self, since_ns: int, until_ns: int) -> list[dict[str, Any]]:
        """No layers."""
        return []


def test_a_run_that_raises_ends_its_instrument_and_is_in_no_trace(tmp_path: Path) -> None:
    """The client gets the runtime's own error, the next request is measured as if nothing had been, and two of three
    runs are told of. The instrument learns which one it was."""
    source, path = Source(), tmp_path / "told.json"
    recorder = Recorder(path, framework=True)
    engine = TracedEngine(Engine(), recorder, source)
    good: dict[str, Array] = {"x": np.ones(2, np.float32)}
    bad: dict[str, Array] = {"x": -np.ones(2, np.float32)}
    engine.run(good)
    with pytest.raises(ValueError, match="negative"):
        engine.run(bad)
    assert not source.on
    engine.run(good)
    recorder.write([source])
    told = json.loads(path.read_bytes())
    assert source.runs == 3 and source.failed == [2] and len(told["runs"]) == 2
    assert told["sampling"] == [{"runs": 2, "left_out": 1, "lost": 7}]
    assert {run["name"] for run in told["runs"]} == {"run"}


def test_runs_are_called_as_their_runtime_calls_them() -> None:
    """A session's run is no module's call, and a signature's neither."""
    names = {
        "onnxruntime": "session.run", "openvino": "request.infer", "savedmodel": "signature call",
        "torchscript": "module call", "pt2": "module call", "aotinductor": "module call",
        "tflite": "interpreter.invoke", "tensorrt": "context.execute",
    }  # fmt: skip
    assert {kind: getattr(ENGINES.load(kind), "run_name", None) for kind in names} == names
