"""An OpenVINO IR of anybody's (``model.xml`` and ``model.bin``) as a model that can be served."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.errors import InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.openvino import OpenVinoFormat
from inferbench_tasks.formats.stored_precision import QUANTISED, most
from inferbench_tasks.modelrepo.onnx_file import Adapted
from inferbench_tasks.modelrepo.own_batch import (
    Tensors,
    artifact,
    common_batch,
    keep_original,
    outcome,
    proof,
)

ORIGINAL = "original.xml"
#: Types of constants -> what a model of such weights is called; sizes and indices are in others.
CALLED = {
    "f32": "fp32", "f64": "fp32", "f16": "fp16", "bf16": "bf16", "i8": "int8", "u8": "int8", "i4": "int4", "u4": "int4",
    "i2": "int2", "u2": "int2", "f8e4m3": "fp8", "f8e5m2": "fp8", "f4e2m1": "fp4", "nf4": "nf4",
}  # fmt: skip
#: What a mask may pass until it is added; these by constants alone.
_BY_CONSTANTS = {"Add", "Subtract", "Multiply", "Divide", "Minimum", "Maximum", "Select", "Gather"}
_PASSED = _BY_CONSTANTS | {
    "Convert", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "StridedSlice", "Split", "VariadicSplit",
    "Concat", "Broadcast", "Tile", "Negative", "Clamp",
}  # fmt: skip
#: What adds it to what was computed, or bounds that by it.
_ADDING = {"Add", "Subtract", "Minimum", "Maximum"}
#: The place of an attention's mask.
_MASK = 3
REMEDY = "convert it anew with a first axis of samples, or give the ONNX file that it was made from"


def adapt(path: Path, shown: str) -> Adapted:
    """Name its ports, and make its batch free where that is possible; the file is written anew then.

    Raises InputError, which names what is in the way.
    """
    require("openvino")
    import openvino

    original = path.with_name(ORIGINAL)
    _move(path, original)  # its weights are read while they are needed: they can't be written over
    model = _read(original, shown)
    tensors, parameters, precision = _tensors(model, shown), _parameters(model), precision_of(model)
    if tensors.batch is None:
        _move(original, path)
        return Adapted(tensors.inputs, tensors.outputs, None, (), parameters, precision)
    try:
        free = {port: [-1, *list(port.get_partial_shape())[1:]] for port in model.inputs}
        _free_reshapes(model, tensors.batch)
        model.reshape(free)
        freed = _tensors(model, shown)
        openvino.save_model(model, path, compress_to_fp16=False)
        reason = "an output keeps it" if freed.batch is not None else None
        if reason is None:
            ways = [
                OpenVinoFormat().open(artifact("openvino", file, specs))
                for file, specs in ((original, tensors), (path, freed))
            ]
            reason = proof(ways[0], ways[1], freed.inputs, tensors.batch)
    except InputError:
        reason = "its outputs have no free first axis then"
    except RuntimeError as error:
        reason = " ".join(str(error).split())[-300:]
    if reason is None:
        keep_original(path, original, tensors.batch)
    else:
        _move(original, path)
    return replace(outcome(tensors, reason), parameters=parameters, precision=precision)


def _free_reshapes(model: Any, batch: int) -> None:
    """Where a Reshape's constant begins with the batch, the batch is what is left over."""
    from openvino import opset8

    for node in model.get_ops():
        source = node.input_value(1).get_node() if node.get_type_name() == "Reshape" else None
        if source is None or source.get_type_name() != "Constant":
            continue
        sizes = source.get_data().copy().reshape(-1)
        if len(sizes) and sizes[0] == batch and -1 not in sizes:
            sizes[0] = -1
            node.input(1).replace_source_output(opset8.constant(sizes).output(0))


def _move(path: Path, to: Path) -> None:
    path.replace(to)
    path.with_suffix(".bin").replace(to.with_suffix(".bin"))


def operators(path: Path) -> dict[str, int]:
    """How often each operator stands in it; what only names inputs, outputs and weights is left out."""
    kinds = (op.get_type_name() for op in _read(path, path.name).get_ops())
    counts = Counter(kind for kind in kinds if kind not in ("Parameter", "Result", "Constant"))
    return dict(counts.most_common())


def _parameters(model: Any) -> int:
    """Numbers in its constants of floating point."""
    constants = [op for op in model.get_ops() if op.get_type_name() == "Constant"]
    return sum(math.prod(map(int, op.shape)) for op in constants if op.get_element_type().is_real())


def precision_of(model: Any) -> str:
    """In which most of its constants are; of those that are quantised the ones with scales alone, others are tables."""
    counts: Counter[str] = Counter()
    computed = _computed(model)
    for op in model.get_ops():
        kind = CALLED.get(op.get_element_type().get_type_name()) if op.get_type_name() == "Constant" else None
        if kind is not None and (kind not in QUANTISED or _scaled(op, computed)):
            counts[kind] += math.prod(map(int, op.shape))
    return most(counts)


def _scaled(constant: Any, computed: set[str]) -> bool:
    """Whether its numbers become others by scales: they are converted, and then multiplied by constants, less a zero
    point where there is one. A mask is, too, and is added to what was computed (as ``formats.stored_precision``)."""
    return any(
        taker.get_type_name() in ("Subtract", "Multiply")
        and all(_constant(value.get_node()) for value in taker.input_values())
        and not _only_added(taker, computed)
        for converted in _takers(constant)
        if converted.get_type_name() == "Convert"
        for taker in _takers(converted)
    )


def _computed(model: Any) -> set[str]:
    """The names of what is not made of constants alone."""
    computed: set[str] = set()
    for op in model.get_ordered_ops():
        sources = [value.get_node() for value in op.input_values()]
        by_itself = not sources and op.get_type_name() != "Constant"
        if by_itself or any(source.get_name() in computed for source in sources):
            computed.add(op.get_name())
    return computed


def _only_added(node: Any, computed: set[str]) -> bool:
    """Whether what was made of a constant comes, in other places or by other constants, to nothing but sums with, and
    bounds of, what was computed, and attentions' masks."""
    left, seen, ends = [node], {node.get_name()}, []
    while left:
        for output in left.pop().outputs():
            for taken in output.get_target_inputs():
                taker, place = taken.get_node(), taken.get_index()
                kind = taker.get_type_name()
                if kind in _PASSED and (kind not in _BY_CONSTANTS or taker.get_name() not in computed):
                    left += [] if taker.get_name() in seen else [taker]
                    seen.add(taker.get_name())
                else:
                    ends.append(kind in _ADDING or (kind == "ScaledDotProductAttention" and place >= _MASK))
    return bool(ends) and all(ends)


def _constant(node: Any) -> bool:
    """Whether it is a constant, converted or not."""
    if node.get_type_name() == "Convert":
        node = node.input_value(0).get_node()
    return bool(node.get_type_name() == "Constant")


def _takers(node: Any) -> list[Any]:
    return [taken.get_node() for taken in node.output(0).get_target_inputs()]


def _read(path: Path, shown: str) -> Any:
    import openvino

    try:
        return openvino.Core().read_model(path)
    except RuntimeError as error:
        text = " ".join(str(error).split())[-500:].replace(str(path), shown)
        raise InputError(f"OpenVINO here can't read {shown}: {text}", field="model.path") from error


def _tensors(model: Any, shown: str) -> Tensors:
    inputs, outputs = _specs(model.inputs, "input", shown), _specs(model.outputs, "output", shown)
    shapes = [(spec.name, _shape(port)) for spec, port in zip(inputs, model.inputs, strict=True)]
    shapes += [(spec.name, _shape(port)) for spec, port in zip(outputs, model.outputs, strict=True)]
    return Tensors(inputs, outputs, common_batch(shapes, shown, REMEDY))


def _specs(ports: Any, kind: str, shown: str) -> tuple[TensorSpec, ...]:
    specs = []
    for number, port in enumerate(ports):
        if not port.get_names():
            port.get_tensor().set_names({f"{kind}_{number}"})
        try:
            dtype = port.get_element_type().to_dtype().name
        except (RuntimeError, TypeError) as error:
            raise InputError(
                f"{shown}: the {kind} {port.get_any_name()} is of type {port.get_element_type().get_type_name()}, "
                f"which requests can't carry",
                field="model.path",
            ) from error
        sizes = _shape(port) or ()
        shape = tuple(-1 if size is None else size for size in sizes[1:])
        specs.append(TensorSpec(name=port.get_any_name(), dtype=dtype, shape=shape))
    return tuple(specs)


def _shape(port: Any) -> tuple[int | None, ...] | None:
    """None for an unknown rank; a size that is not known is None."""
    partial = port.get_partial_shape()
    if partial.rank.is_dynamic:
        return None
    return tuple(None if size.is_dynamic else int(size.get_length()) for size in partial)
