"""``model: {kind: file}``: a model of the user's, in a format that can be read without running its code.

Nothing is unpickled. The file is checked, copied into the cache (so that it can't change under a run)
and its signature read; everything that is wrong with it is said before anything is served.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from inferbench_tasks.artifacts import safe_files
from inferbench_tasks.artifacts.cache import tree_digest
from inferbench_tasks.contracts.handles import Handle, TensorSpec
from inferbench_tasks.contracts.models import Made, ModelSource, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats import module_file
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.gguf_file import read_gguf
from inferbench_tasks.formats.torch import count_parameters, keep_with_module
from inferbench_tasks.submission.model import FileModel

#: Ending -> format; a folder is a SavedModel.
ENDINGS = {
    ".onnx": "onnx",
    ".pt": "torchscript",
    ".ts": "torchscript",
    ".torchscript": "torchscript",
    ".pt2": "pt2",
    ".safetensors": "torch",
    ".gguf": "gguf",
}
SAFE = (
    "allowed: ONNX (.onnx), TorchScript (.pt, .ts), an exported program (.pt2), a SavedModel folder "
    "(saved_model.pb), weights (.safetensors) with model.module, the Python file that builds the network, a language "
    "model (.gguf)"
)
#: Formats whose files run code when they are read.
UNSAFE = {
    ".pkl": "a pickle", ".pickle": "a pickle", ".joblib": "a pickle", ".pth": "a pickled PyTorch checkpoint",
    ".bin": "a pickled PyTorch checkpoint", ".ckpt": "a pickled checkpoint", ".h5": "a Keras archive",
    ".hdf5": "a Keras archive", ".keras": "a Keras archive", ".npz": "an archive of arrays",
}  # fmt: skip
#: Formats that are read by others than us, and what helps.
FOREIGN = {
    ".tflite": "is a TFLite model, which no backend here runs; convert it to ONNX (tf2onnx reads TFLite)",
    ".xml": "is an OpenVINO model, which is only made here; give the ONNX file that it was made from",
}


class Signature(Handle):
    """``<file>.signature.json``: what a PyTorch file takes and gives; the batch axis is left out."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


class FileSource(ModelSource):
    """A model file or folder below the submission's folder."""

    licence = None
    foreign = True

    def __init__(self, spec: FileModel, base_dir: Path) -> None:
        self.path = safe_files.inside(base_dir, spec.path, "model.path")
        self.format = _format_of(self.path, spec)
        self.name = re.sub(r"[^A-Za-z0-9_-]+", "-", self.path.stem).strip("-") or "model"
        self.framework = {"savedmodel": "tensorflow", "onnx": "onnx", "gguf": "gguf"}.get(
            self.format, "torch"
        )
        self.task = "text-generation" if self.format == "gguf" else None
        safe_files.check_size(self.path)
        self.factory = spec.factory
        self.module = module_file.find(base_dir, spec.module) if spec.module else None

    def settings(self) -> dict[str, Any]:
        sidecar = _sidecar(self.path)
        code = {"module": tree_digest(self.module), "factory": self.factory} if self.module else {}
        return code | {
            "file": tree_digest(self.path),
            "external": [tree_digest(path) for path in self._external()],
            "signature": sidecar.read_text() if sidecar.is_file() else None,
            "format": self.format,
            "name": self.name,
            "recipe": 5,
        }

    def _external(self) -> list[Path]:
        return safe_files.external_data(self.path) if self.format == "onnx" else []

    def make(self, folder: Path, watch: Watch) -> Made:
        watch.step(0, None, f"checking {self.path.name}")
        extra = FORMATS.load(self.format).extra
        if extra:
            require(extra)
        file = FORMATS.load(self.format).file
        safe_files.check_model(self.path, self.format)
        if self.format == "gguf":
            read_gguf(self.path)
        if self.format == "savedmodel":
            shutil.copytree(self.path, folder / file)
        elif self.module is not None:
            inputs, outputs = self._signature(folder / file)
            keep_with_module(self.path, self.module, self.factory, folder / file)
            parameters = count_parameters(folder / file)
            return Made(self.format, file, inputs, outputs, parameters)
        else:
            shutil.copyfile(self.path, folder / file)
            for path in self._external():
                target = folder / path.relative_to(self.path.parent)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        if self.format == "onnx":
            return self._adapted(folder / file)
        if self.format == "gguf":
            return _language_model(folder / file, self.path.name)
        inputs, outputs = self._signature(folder / file)
        return Made(format=self.format, file=file, inputs=inputs, outputs=outputs)

    def _adapted(self, path: Path) -> Made:
        from inferbench_tasks.modelrepo.onnx_file import adapt

        model = adapt(path, self.path.name)
        return Made(
            "onnx", path.name, model.inputs, model.outputs, batch_size=model.batch_size, adapted=model.notes
        )

    def _signature(self, path: Path) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
        if self.format == "savedmodel":
            return _saved_model_signature(path)
        sidecar = _sidecar(self.path)
        try:
            signature = TypeAdapter(Signature).validate_json(sidecar.read_bytes())
        except FileNotFoundError:
            example = {"inputs": [{"name": "input", "dtype": "float32", "shape": [3, 224, 224]}]}
            example["outputs"] = [{"name": "scores", "dtype": "float32", "shape": [1000]}]
            raise InputError(
                f"{self.path.name} doesn't say what it takes; put {sidecar.name} beside it, for "
                f"instance {json.dumps(example)} (shapes without the batch axis, -1 for a free size)",
                field="model.path",
            ) from None
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise InputError(f"{sidecar}: {problems}") from None
        return signature.inputs, signature.outputs


def _language_model(path: Path, name: str) -> Made:
    """It takes texts and gives tokens; read once more where it lies now, so that nobody changed it in between."""
    model = read_gguf(path, name)
    return Made("gguf", path.name, (), (), parameters=model.parameters, precision=model.precision)


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".signature.json")


def _format_of(path: Path, spec: FileModel) -> str:
    if path.is_dir():
        actual = "savedmodel" if (path / "saved_model.pb").is_file() else None
        what = "is a folder without saved_model.pb"
    else:
        ending = path.suffix.lower()
        actual = ENDINGS.get(ending)
        if ending in FOREIGN:
            raise InputError(f"{spec.path} {FOREIGN[ending]}", field="model.path")
        kind = UNSAFE.get(ending)
        what = (
            f"is {kind}, and reading that can run code: nothing is unpickled here"
            if kind
            else f"has an unknown ending {ending!r}"
        )
    if actual is None:
        raise InputError(f"{spec.path} {what}; {SAFE}", field="model.path")
    if spec.format not in (None, actual):
        raise InputError(
            f"{spec.path} is {actual}, not {spec.format}; leave format out", field="model.format"
        )
    return actual


def _saved_model_signature(path: Path) -> tuple[tuple[TensorSpec, ...], tuple[TensorSpec, ...]]:
    from inferbench_tasks.formats.savedmodel import load

    _, call = load(path)

    def specs(by_name: Any) -> tuple[TensorSpec, ...]:
        tensors = []
        for name, tensor in by_name.items():
            if tensor.shape.rank is None or tensor.shape.rank == 0 or tensor.shape[0] is not None:
                raise InputError(
                    f"{name} has shape {tensor.shape}: its first axis must be a free batch axis",
                    field="model.path",
                )
            shape = tuple(-1 if size is None else int(size) for size in tensor.shape[1:])
            dtype = "str" if tensor.dtype.name == "string" else tensor.dtype.name
            tensors.append(TensorSpec(name=name, dtype=dtype, shape=shape))
        return tuple(tensors)

    return specs(call.structured_input_signature[1]), specs(call.structured_outputs)
