"""The space of the recorded grid: which settings a point has, and the job that measures it.

A point is a mapping from the axes' names to values. ``server`` is a format and its backend in one word,
since neither goes without the other; ``delay_ms`` is the dynamic batcher's, "off" without one.
"""

from __future__ import annotations

import itertools
from typing import Any

from benchmarks.submitted import served_format
from inferbench_tasks.submission.schema import JobSpec

Point = dict[str, Any]

SERVERS = ("onnxruntime", "openvino")
#: What a server is started with: changing one of them means another server.
SERVE_AXES: dict[str, list[Any]] = {
    "server": list(SERVERS),
    "threads": [1, 2],
    "instances": [1, 2],
    "delay_ms": ["off", 0.0, 2.0],
}
#: What the load changes on a running server.
LOAD_AXES: dict[str, list[Any]] = {"batch_size": [1, 4, 8], "concurrency": [1, 4, 16]}
AXES = {**SERVE_AXES, **LOAD_AXES}
MAX_BATCH_SIZE = 16
MODELS: dict[str, dict[str, Any]] = {
    "cnn": {"kind": "canonical", "family": "cnn", "layers": 2, "channels": 8, "training": {"epochs": 0}},
    "mlp": {"kind": "canonical", "family": "mlp", "layers": 4, "neurons": 512, "training": {"epochs": 0}},
}


def grid(axes: dict[str, list[Any]] = AXES) -> list[Point]:
    """All combinations, the last axis fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def as_settings(point: Point) -> dict[str, Any]:
    """A point by the names that a submission has for its settings."""
    given = {axis: value for axis, value in point.items() if axis != "delay_ms"}
    return {**given, "batching": _batching(point)}


def _batching(point: Point) -> dict[str, Any] | None:
    if point["delay_ms"] == "off":
        return None
    return {"max_batch_size": MAX_BATCH_SIZE, "max_delay_ms": point["delay_ms"]}


def job_of(model: str, point: Point, *, duration_s: float, warmup_s: float) -> JobSpec:
    """The job that measures a point."""
    return JobSpec.model_validate(
        {
            "name": f"grid-{model}",
            "model": MODELS[model],
            "requests": {"kind": "random", "samples": 64},
            "convert": {"format": served_format(point["server"])},
            "serve": {
                "backend": point["server"],
                "threads": point["threads"],
                "instances": point["instances"],
                "batching": _batching(point),
            },
            "load": {
                "arrivals": {"kind": "closed_loop", "concurrency": point["concurrency"]},
                "batch_size": point["batch_size"],
                "duration_s": duration_s,
                "warmup_s": warmup_s,
            },
        }
    )
