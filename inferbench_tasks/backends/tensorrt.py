"""``tensorrt``: TensorRT engines in our FastAPI server, on the worker of a device with a GPU."""

from __future__ import annotations

from inferbench_tasks.backends.own_server import OwnServer
from inferbench_tasks.formats.tensorrt import TensorRtFormat


class TensorRt(OwnServer):
    """One execution context per instance; PyTorch's CUDA build holds the buffers."""

    kind = "tensorrt"
    formats = ("tensorrt",)
    devices = ("gpu",)
    launchers = ("process",)
    engine = "tensorrt"
    package = "tensorrt"
    title = "TensorRT"
    traced_levels = ()

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """As for the format: the GPU and the package."""
        return TensorRtFormat().unavailable() or super().unavailable(launcher, device)
