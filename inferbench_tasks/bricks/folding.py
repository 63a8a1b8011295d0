"""What fixed sizes make constant: a runtime that is given them computes it once, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from inferbench_tasks.bricks.layer import Layer
from inferbench_tasks.formats.drawn import DRAWN

#: How many values they give depends on the values that they are given.
_OF_VALUES = {"NonZero", "Compress", "Unique", "NonMaxSuppression", "If", "Loop", "Scan", "StringSplit"}
#: The sizes of what they give are values of an input: of any, or of any but the first.
_SIZED_BY_INPUTS = {"ConstantOfShape", "Range"}
_SIZED_BY_OTHERS = {
    "Reshape", "Expand", "Slice", "Tile", "Pad", "Resize", "Upsample", "OneHot", "TopK", "MaxUnpool", "Squeeze",
    "Unsqueeze", "Split", "CenterCropPad", "AffineGrid",
}  # fmt: skip
_SIZES = {"Shape", "Size"}
_NUMBERS = "fiub"


def fold(model: ir.Model, layers: Sequence[Layer], values: Mapping[str, Any]) -> None:
    """Replace what is constant, in place; ``values``: what each layer gave in one run, by name. ``layers`` are not the
    model's any more then.

    That is what takes nothing but constants, or asks for sizes that no value decides. What the model answers stays a
    layer, and so does what draws numbers, or gives what is no number.
    """
    constant: set[ir.Value] = set()
    open_sizes: set[ir.Value] = set()
    for layer in layers:
        node = layer.node
        operator = node.op_type if node.domain in ("", "ai.onnx") else ""
        taken = [value for value in layer.inputs if value not in constant]
        if _sizes_are_open(operator, layer, taken, open_sizes):
            open_sizes.update(layer.outputs)
        elif (not taken or operator in _SIZES) and _foldable(operator, layer, values):
            constant.update(layer.outputs)
    for value in constant:
        name = value.name
        assert name is not None
        value.name = f"{name} before"
        replacement = ir.Value(
            name=name, const_value=ir.tensor(np.ascontiguousarray(values[name]), name=name)
        )
        replacement.shape, replacement.type = value.shape, value.type
        model.graph.register_initializer(replacement)
        ir.convenience.replace_all_uses_with(value, replacement)
    common.RemoveUnusedNodesPass()(model)


def _sizes_are_open(
    operator: str, layer: Layer, taken: Sequence[ir.Value], open_sizes: set[ir.Value]
) -> bool:
    if operator in _OF_VALUES or any(value in open_sizes for value in layer.inputs):
        return True
    if operator in _SIZED_BY_INPUTS:
        return bool(taken)
    return operator in _SIZED_BY_OTHERS and any(value is not layer.node.inputs[0] for value in taken)


def _foldable(operator: str, layer: Layer, values: Mapping[str, Any]) -> bool:
    if operator in DRAWN or any(value.is_graph_output() for value in layer.outputs):
        return False
    arrays = [values.get(value.name or "") for value in layer.outputs]
    return all(isinstance(array, np.ndarray) and array.dtype.kind in _NUMBERS for array in arrays)
