"""``model: {kind: file}``: a model of the user's, in a format that can be read without running its code.

Nothing is unpickled. The file is checked, copied into the cache (so that it can't change under a run)
and its signature read; everything that is wrong with it is said before anything is served.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from inferbench_tasks.artifacts import exported_program, safe_files, saved_model, torchscript
from inferbench_tasks.artifacts.cache import tree_digest
from inferbench_tasks.contracts.handles import Handle, TensorSpec
from inferbench_tasks.contracts.models import Made, ModelSource, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats import module_file
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.gguf_file import read_gguf
from inferbench_tasks.formats.stored_precision import of_dtypes
from inferbench_tasks.formats.torch import WEIGHTS, file_precision, keep_with_module, weights_of
from inferbench_tasks.modelrepo import (
    onnx_file,
    openvino_file,
    savedmodel_file,
    tflite_file,
    torchscript_file,
)
from inferbench_tasks.modelrepo.onnx_file import Adapted
from inferbench_tasks.modelrepo.own_batch import Tensors
from inferbench_tasks.problem import field_problems
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
    ".xml": "openvino",
    ".tflite": "tflite",
}
SAFE = (
    "allowed: ONNX (.onnx), TorchScript (.pt, .ts), an exported program (.pt2), a SavedModel folder "
    "(saved_model.pb), OpenVINO IR (.xml with its .bin), TFLite (.tflite), weights (.safetensors) with model.module, "
    "the Python file that builds the network, a language model (.gguf)"
)
#: Formats whose files run code when they are read.
UNSAFE = {
    ".pkl": "a pickle", ".pickle": "a pickle", ".joblib": "a pickle", ".pth": "a pickled PyTorch checkpoint",
    ".bin": "a pickled PyTorch checkpoint", ".ckpt": "a pickled checkpoint", ".h5": "a Keras archive",
    ".hdf5": "a Keras archive", ".keras": "a Keras archive", ".npz": "an archive of arrays",
}  # fmt: skip
#: Of a file's format; all others are PyTorch's.
FRAMEWORKS = {
    "savedmodel": "tensorflow",
    "onnx": "onnx",
    "gguf": "gguf",
    "openvino": "openvino",
    "tflite": "tflite",
}


class Signature(Handle):
    """``<file>.signature.json``: what a PyTorch file takes and gives; the batch axis is left out.

    ``batch_size``: the one batch that it was traced or exported for; left out: it takes any.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    batch_size: Annotated[int, Field(ge=1, le=4096)] | None = None


class FileSource(ModelSource):
    """A model file or folder below the submission's folder."""

    licence = None
    foreign = True

    def __init__(self, spec: FileModel, base_dir: Path) -> None:
        self.path = safe_files.inside(base_dir, spec.path, "model.path")
        self.format = _format_of(self.path, spec)
        self.name = re.sub(r"[^A-Za-z0-9_-]+", "-", self.path.stem).strip("-") or "model"
        self.framework = FRAMEWORKS.get(self.format, "torch")
        self.task = "text-generation" if self.format == "gguf" else None
        safe_files.check_size(self.path)
        self.factory, self.signature_name = spec.factory, spec.signature
        if spec.signature is not None and self.format != "savedmodel":
            raise InputError(f"{spec.path} is no SavedModel: leave signature out", field="model.signature")
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
            **({"served": self.signature_name} if self.signature_name else {}),
            # Earlier ones of weights with a module had lost their batch; of ONNX, what functions draw was overlooked;
            # all but language models were called fp32, and PyTorch's and TensorFlow's longer than others.
            "recipe": 10,
        }

    def _external(self) -> list[Path]:
        """The files beside it that are part of the model. InputError where one is missing."""
        if self.format == "openvino":
            name = self.path.with_suffix(".bin").name
            weights = safe_files.inside(self.path.parent, name, "model.path: its weights")
            safe_files.require_no_pointer(weights)
            return [weights]
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
            model = _as_signed(self, folder / file)
            keep_with_module(self.path, self.module, self.factory, folder / file)
            parameters, precision = weights_of(folder / file)
            notes = model.notes
            if (in_file := file_precision(folder / file / WEIGHTS)) != precision:
                notes += (f"its weights are {in_file}, and its module keeps them in {precision}",)
            model = replace(model, parameters=parameters, precision=precision, notes=notes)
        else:
            shutil.copyfile(self.path, folder / file)
            self._copy_external(folder, file)
        if self.format == "gguf":
            return _language_model(folder / file, self.path.name)
        if self.module is None:
            model = ADAPT.get(self.format, _as_signed)(self, folder / file)
        return Made(
            self.format,
            file,
            model.inputs,
            model.outputs,
            parameters=model.parameters,
            precision=model.precision,
            batch_size=model.batch_size,
            adapted=model.notes,
        )

    def _copy_external(self, folder: Path, file: str) -> None:
        for path in self._external():
            target = folder / path.relative_to(self.path.parent)
            if self.format == "openvino":
                target = (folder / file).with_suffix(".bin")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

    def signed(self) -> Signature:
        """What the file beside it says. InputError where there is none, or it can't be read."""
        sidecar = _sidecar(self.path)
        try:
            return TypeAdapter(Signature).validate_json(sidecar.read_bytes())
        except FileNotFoundError:
            example = {"inputs": [{"name": "input", "dtype": "float32", "shape": [3, 224, 224]}]}
            example["outputs"] = [{"name": "scores", "dtype": "float32", "shape": [1000]}]
            raise InputError(
                f"{self.path.name} doesn't say what it takes; put {sidecar.name} beside it, for "
                f"instance {json.dumps(example)} (shapes without the batch axis, -1 for a free size; batch_size where "
                f"it takes one batch only)",
                field="model.path",
            ) from None
        except ValidationError as error:
            problems = "; ".join(field_problems(error))
            raise InputError(f"{sidecar}: {problems}") from None


def _as_signed(source: FileSource, path: Path) -> Adapted:
    told = source.signed()
    notes = (f"its signature says that it takes {told.batch_size} in each call",) if told.batch_size else ()
    return Adapted(told.inputs, told.outputs, told.batch_size, notes)


def _torchscript(source: FileSource, path: Path) -> Adapted:
    told, precision = source.signed(), of_dtypes(torchscript.check(path))
    adapted = torchscript_file.adapt(path, Tensors(told.inputs, told.outputs, told.batch_size))
    return replace(adapted, precision=precision)


def _exported(source: FileSource, path: Path) -> Adapted:
    return replace(_as_signed(source, path), precision=of_dtypes(exported_program.stored(path)))


def _savedmodel(source: FileSource, path: Path) -> Adapted:
    precision = of_dtypes(saved_model.stored(path))
    adapted = savedmodel_file.adapt(path, source.path.name, source.signature_name)
    return replace(adapted, precision=precision)


#: By format, what makes a copy of the source's file fit for requests; files of others are as their signature says.
ADAPT: dict[str, Callable[[FileSource, Path], Adapted]] = {
    "onnx": lambda source, path: onnx_file.adapt(path, source.path.name),
    "openvino": lambda source, path: openvino_file.adapt(path, source.path.name),
    "pt2": _exported,
    "savedmodel": _savedmodel,
    "tflite": lambda source, path: tflite_file.adapt(path, source.path.name),
    "torchscript": _torchscript,
}


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
