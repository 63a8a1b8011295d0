"""A registry with one backend that can do very little, whatever the real ones learn to do."""

from __future__ import annotations

from inferbench_tasks.registry import Registry


class Narrow:
    """What the checks ask a backend for."""

    formats = ("onnx",)
    protocols = ("http",)
    launchers = ("process",)
    devices = ("cpu",)
    batching = False


BACKENDS: Registry[type[Narrow]] = Registry(
    "serving backend",
    "inferbench.backends.none",
    {"onnxruntime": "tests.unit.submission.narrow:Narrow"},
)
