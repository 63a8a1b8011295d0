"""``onnxruntime``: ONNX models by ONNX Runtime in our FastAPI server; the default."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.backends import onnx_readable
from inferbench_tasks.backends.own_server import OwnServer


class OnnxRuntime(OwnServer):
    """One session per instance, each with its own intra-op threads."""

    kind = "onnxruntime"
    formats = ("onnx",)
    devices = ("cpu", "gpu")
    engine = "onnxruntime"
    package = "onnxruntime"
    other_versions = True
    title = "ONNX Runtime"
    traced_levels = ("model", "framework", "layer", "library")
    sampled = True

    def require_reads(self, path: Path, model_format: str, folder: Path, words: str) -> None:
        """By its IR version and its operator sets."""
        onnx_readable.require_reads(path, folder, words)

    @classmethod
    def unavailable(cls, launcher: str, device: str = "cpu") -> str | None:
        """A GPU needs the runtime's CUDA provider."""
        reason = super().unavailable(launcher, device)
        if reason or device == "cpu":
            return reason
        import onnxruntime

        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            return "this ONNX Runtime has no CUDA provider; install onnxruntime-gpu in its place"
        return None
