"""OpenVINO's intermediate representation: ``model.xml`` with its weights in ``model.bin`` beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.artifacts.cache import digest_of_files
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.base import Format, Predict, Settings


class OpenVinoFormat(Format):
    """Run by OpenVINO. fp16 keeps weights in half precision; int8 comes from the quantised ONNX model."""

    kind = "openvino"
    title = "OpenVINO IR"
    extra = "openvino"
    packages = ("openvino",)
    file = "model.xml"
    sources = {"onnx": ("fp32", "fp16")}

    def digest(self, path: Path) -> str:
        """The SHA-256 over the network's description and its weights."""
        return digest_of_files([path, path.with_suffix(".bin")])

    def open(self, model: ModelArtifact) -> Predict:
        require("openvino")
        import openvino

        try:
            core = openvino.Core()
            compiled = core.compile_model(
                core.read_model(model.path),
                "CPU",
                {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"},
            )
        except RuntimeError as error:
            raise InputError(f"The OpenVINO model {model.path} can't be loaded: {error}") from error
        request: Any = compiled.create_infer_request()
        named = [set(port.get_names()) for port in compiled.inputs]
        by_name = all(any(spec.name in names for names in named) for spec in model.inputs)

        def predict(arrays: Arrays) -> Arrays:
            inputs = {spec.name: arrays[spec.name] for spec in model.inputs}
            request.infer(inputs if by_name else list(inputs.values()))
            return {
                spec.name: request.get_output_tensor(at).data.copy() for at, spec in enumerate(model.outputs)
            }

        return predict

    def convert(self, source: ModelArtifact, folder: Path, settings: Settings) -> None:
        require("openvino")
        import openvino

        model = openvino.convert_model(source.path)
        openvino.save_model(model, folder / self.file, compress_to_fp16=settings.precision == "fp16")
