"""Which operators stand in a file, and how often, by its format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from inferbench_tasks.modelrepo import (
    onnx_file,
    openvino_file,
    savedmodel_file,
    tflite_file,
    torchscript_file,
)

#: Each is told the file, and the signature of a SavedModel that was chosen.
_BY_FORMAT: dict[str, Callable[[Path, str | None], dict[str, int]]] = {
    "onnx": lambda path, _: onnx_file.operators(path),
    "openvino": lambda path, _: openvino_file.operators(path),
    "savedmodel": savedmodel_file.operators,
    "tflite": lambda path, _: tflite_file.operators(path),
    "torchscript": lambda path, _: torchscript_file.operators(path),
}


def operators(form: str, path: Path, signature: str | None = None) -> dict[str, int]:
    """The most frequent first; empty for formats that are not read here."""
    count = _BY_FORMAT.get(form)
    return count(path, signature) if count else {}
