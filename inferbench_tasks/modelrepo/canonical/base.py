"""The paper's canonical models: stacks of one kind of block, in PyTorch and in TensorFlow.

A family is one module with the same names in each: ``input_shape``, ``macs``, ``parameters``,
``activations`` (closed forms, known before anything is built), ``torch_module`` and ``keras_model``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.requests.digits import CLASSES
from inferbench_tasks.submission.model import CnnModel, MlpModel, RnnModel, TransformerModel

CanonicalSpec = MlpModel | CnnModel | RnnModel | TransformerModel

#: What a small machine can still train and serve.
MAX_PARAMETERS = 500_000_000
MAX_ACTIVATION_BYTES = 1 << 30
INPUT = "input"
OUTPUT = "scores"


@dataclass(frozen=True)
class Size:
    """Closed forms per sample: multiply-adds, weights, and values that a training step keeps."""

    macs: int
    parameters: int
    activations: int


def family_module(spec: CanonicalSpec) -> Any:
    """The module of a specification's family."""
    return importlib.import_module(f"inferbench_tasks.modelrepo.canonical.{spec.family}")


def size_of(spec: CanonicalSpec) -> Size:
    """The model's size. Raises InputError, with the figures, where it is too large to be trained here."""
    module = family_module(spec)
    size = Size(module.macs(spec), module.parameters(spec), module.activations(spec))
    if size.parameters > MAX_PARAMETERS:
        raise InputError(
            f"this {spec.family} has {size.parameters:,} parameters, allowed are {MAX_PARAMETERS:,}; "
            f"use fewer layers or a smaller width",
            field="model",
        )
    if 4 * size.activations > MAX_ACTIVATION_BYTES:
        raise InputError(
            f"one sample of this {spec.family} needs {4 * size.activations:,} bytes of activations, "
            f"allowed are {MAX_ACTIVATION_BYTES:,}; use a smaller input or width",
            field="model",
        )
    return size


__all__ = [
    "CLASSES",
    "INPUT",
    "OUTPUT",
    "CanonicalSpec",
    "CnnModel",
    "MlpModel",
    "RnnModel",
    "TransformerModel",
]
