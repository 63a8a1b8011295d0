"""A TFLite file of anybody's as a model that can be served."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.savedmodel import SIGNATURE
from inferbench_tasks.formats.stored_precision import QUANTISED, most
from inferbench_tasks.formats.tflite import TfliteFormat
from inferbench_tasks.formats.tflite_runner import Tensor, tensors
from inferbench_tasks.modelrepo.onnx_file import Adapted
from inferbench_tasks.modelrepo.own_batch import (
    Tensors,
    artifact,
    common_batch,
    keep_original,
    outcome,
    proof,
)

ORIGINAL = "original.tflite"
#: Types of constants -> what a model of such weights is called; sizes and indices are in others.
CALLED = {"float32": "fp32", "float64": "fp32", "float16": "fp16", "int8": "int8", "uint8": "int8"}
#: The operator by which a file names what it keeps from one run to the next.
VARIABLE = "VAR_HANDLE"
REMEDY = "convert it anew with a first axis of samples"


def adapt(path: Path, shown: str) -> Adapted:
    """Its tensors, and whether it may be asked for another batch than its own: LiteRT lays a file out for any.

    The file stays as it is. Raises InputError, which names what is in the way.
    """
    opened = _opened(path, shown)
    if any(detail["op_name"] == VARIABLE for detail in opened._get_ops_details()):
        raise InputError(
            f"{shown} has variables ({VARIABLE}): they keep what was computed before, or were never filled, so that "
            f"answers to the same request differ; make constants of them: "
            f"tf.lite.TFLiteConverter.from_concrete_functions([model.signatures['{SIGNATURE}']], model)",
            field="model.path",
        )
    inputs, outputs = tensors(opened)
    told = Tensors(
        _specs(inputs, "input", shown),
        _specs(outputs, "output", shown),
        common_batch([(t.name, _sizes(t)) for t in (*inputs, *outputs)], shown, REMEDY),
    )
    notes = tuple(
        f"{t.name} has numbers of {t.dtype} that stand for {t.quantised[0]:.6g} * (number - {t.quantised[1]}); "
        f"they are served as they are"
        for t in (*inputs, *outputs)
        if t.quantised
    )
    precision = _precision(opened)
    if told.batch is None:
        return Adapted(told.inputs, told.outputs, None, notes, precision=precision)
    original = path.with_name(ORIGINAL)
    shutil.copyfile(path, original)
    free = Tensors(told.inputs, told.outputs, None)
    ways = [
        TfliteFormat().open(artifact("tflite", file, specs))
        for file, specs in ((original, told), (path, free))
    ]
    try:
        reason = proof(ways[0], ways[1], told.inputs, told.batch)
    except (RuntimeError, ValueError) as error:  # laid out for another batch an operator refuses
        reason = " ".join(str(error).split())[-300:]
    if reason is None:
        keep_original(path, original, told.batch)
    else:
        original.unlink()
    return replace(outcome(told, reason, notes), precision=precision)


def operators(path: Path) -> dict[str, int]:
    """How often each operator stands in it, by TFLite's names."""
    details = _opened(path, path.name)._get_ops_details()
    return dict(Counter(str(detail["op_name"]) for detail in details).most_common())


def _precision(opened: Any) -> str:
    """In which most of its constants are: what no operator writes, and nobody gives. Whole numbers without scales are
    tables."""
    others = {int(index) for detail in opened._get_ops_details() for index in detail["outputs"]}
    others |= {int(detail["index"]) for detail in opened.get_input_details()}
    counts: Counter[str] = Counter()
    for detail in opened.get_tensor_details():
        kind = CALLED.get(np.dtype(detail["dtype"]).name)
        if kind in QUANTISED and not len(detail["quantization_parameters"]["scales"]):
            continue
        if kind is not None and detail["name"] and int(detail["index"]) not in others:
            counts[kind] += math.prod(map(int, detail["shape"]))
    return most(counts)


def _opened(path: Path, shown: str) -> Any:
    """Without the faster kernels, which take the place of operators. InputError where LiteRT can't read or run it."""
    require("tflite")
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    try:
        plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        interpreter: Any = Interpreter(
            model_path=str(path), num_threads=1, experimental_op_resolver_type=plain
        )
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError) as error:
        text = " ".join(str(error).split())[-500:].replace(str(path), shown)
        raise InputError(f"LiteRT can't run {shown}: {text}", field="model.path") from error
    return interpreter


def _sizes(tensor: Tensor) -> tuple[int | None, ...]:
    return tuple(None if size < 0 else size for size in tensor.shape)


def _specs(found: tuple[Tensor, ...], kind: str, shown: str) -> tuple[TensorSpec, ...]:
    specs = []
    for tensor in found:
        try:
            specs.append(TensorSpec(name=tensor.name, dtype=tensor.dtype, shape=tensor.shape[1:]))
        except ValueError as error:
            raise InputError(
                f"{shown}: the {kind} {tensor.name} is of type {tensor.dtype}, which requests can't carry",
                field="model.path",
            ) from error
    return tuple(specs)
