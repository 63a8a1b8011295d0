"""TensorRT engines: built from ONNX for one kind of GPU, on a machine that has it."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.errors import ConversionError, InputError
from inferbench_tasks.formats.base import Format, Predict, Settings

#: Sizes that an engine is tuned between: (least, best, most) of the batch, and of any other dynamic axis.
BATCH = (1, 8, 64)
AXIS = (1, 128, 512)


class TensorRtFormat(Format):
    """Strongly typed: the engine computes in the types of the ONNX model, which holds the precision.

    An engine fits one GPU model and one version of TensorRT, so it has to be built where it is served. ``convert``
    takes the first GPU of the machine that it runs on.
    """

    kind = "tensorrt"
    title = "TensorRT engine"
    packages = ("tensorrt",)
    file = "model.plan"
    sources = {"onnx": ("fp32",)}
    given = False
    is_code = True
    devices = ("gpu",)

    def unavailable(self) -> str | None:
        """TensorRT builds on the GPU that it builds for."""
        if shutil.which("nvidia-smi") is None:
            return "a TensorRT engine is built and served where its GPU is: this machine has no NVIDIA GPU"
        if find_spec("tensorrt") is None:
            return "the package tensorrt is not installed; on the machine with the GPU: pip install tensorrt"
        return None

    def versions(self) -> dict[str, str]:
        """The packages' versions and the GPU, for another GPU needs another engine."""
        return {**super().versions(), "gpu": _gpu_name()}

    def open(self, model: ModelArtifact) -> Predict:
        from inferbench_tasks.formats.tensorrt_engine import TensorRtRunner

        runner = TensorRtRunner(model.path, [spec.name for spec in model.outputs])

        def predict(arrays: Arrays) -> Arrays:
            return runner.run({spec.name: arrays[spec.name] for spec in model.inputs})

        return predict

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        if reason := self.unavailable():
            raise InputError(f"tensorrt can't be made here: {reason}", field="convert.format")
        import tensorrt as trt

        logger = trt.Logger(trt.Logger.WARNING)
        builder = trt.Builder(logger)
        # From TensorRT 11 on networks are always strongly typed and the flag is gone.
        typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        network = builder.create_network(0 if typed is None else 1 << int(typed))
        parser = trt.OnnxParser(network, logger)
        if not parser.parse_from_file(source.path):
            problems = "; ".join(str(parser.get_error(at)) for at in range(parser.num_errors))
            raise ConversionError(f"TensorRT can't read {source.name}: {problems}")
        config = builder.create_builder_config()
        if settings.precision == "fp32":
            config.clear_flag(trt.BuilderFlag.TF32)  # full precision is what was asked for
        profile = builder.create_optimization_profile()
        for spec in source.inputs:
            profile.set_shape(spec.name, *shapes(spec))
        config.add_optimization_profile(profile)
        engine: Any = builder.build_serialized_network(network, config)
        if engine is None:
            raise ConversionError(f"TensorRT built no engine for {source.name}; its log says why")
        (folder / self.file).write_bytes(bytes(engine))


def shapes(spec: TensorSpec) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The smallest, best and largest shape of an input, batch first."""
    return tuple(  # type: ignore[return-value]
        (batch, *(size if size != -1 else axis for size in spec.shape))
        for batch, axis in zip(BATCH, AXIS, strict=True)
    )


def _gpu_name() -> str:
    try:
        import pynvml
    except ImportError:
        return "unknown"
    try:
        pynvml.nvmlInit()
        name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
    except pynvml.NVMLError:
        return "none"
    return name.decode() if isinstance(name, bytes) else str(name)
