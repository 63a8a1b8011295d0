"""ONNX Runtime on an NVIDIA GPU by TensorRT. Written without a GPU: nothing of it has run on one."""

from __future__ import annotations

from importlib import metadata, util
from typing import ClassVar

from inferbench_tasks.bricks.runtimes.onnxruntime_cuda import OnnxRuntimeCuda


class OnnxRuntimeTensorRt(OnnxRuntimeCuda):
    """Each brick is an engine of its own, which TensorRT fuses again; what it has not is CUDA's."""

    name = "onnxruntime-tensorrt"
    title = "ONNX Runtime's TensorRT provider"
    providers: ClassVar[tuple[str, ...]] = ("TensorrtExecutionProvider", "CUDAExecutionProvider")

    def version(self) -> str:
        """Also of TensorRT."""
        return f"{super().version()} (TensorRT {metadata.version('tensorrt')})"

    def unavailable(self) -> str | None:
        """As CUDA's, and without TensorRT's libraries."""
        if (why := super().unavailable()) is not None:
            return why
        if util.find_spec("tensorrt") is None:
            return (
                "TensorRT is not installed: pip install tensorrt, of the version that onnxruntime-gpu names"
            )
        return None
