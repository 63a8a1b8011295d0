"""A brick as an ONNX model of its key alone, without weights; and the same with noise in their place, which runs.

Weights are inputs, ``w0, w1 ...``, of which types and shapes are told. Kept are integers, truth values, single numbers
and scales of a resizing, as the key has them, and of masks where they are. Names, texts and versions of the exporter
are gone.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.constants import PARAMETRISED, QUANTISED, in_order, is_own_table, is_weight
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.masks import floats, masked_or_infinite
from inferbench_tasks.bricks.networks import network
from inferbench_tasks.bricks.own_texts import refuse_own_texts
from inferbench_tasks.bricks.plain import coarse_mask, forget_sizes, noise, plain_versions, refuse_own_numbers
from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.errors import InputError

#: Boxes with which image they are of, in floats: noise would be none.
_BOXES = ("MaxRoiPool", 1)
#: (operator, place of the input) of which a root, a logarithm or a quotient is taken.
_ABOVE_ZERO = {
    ("BatchNormalization", 4), ("Sqrt", 0), ("Log", 0), ("Pow", 0), ("Div", 1), ("Reciprocal", 0),
}  # fmt: skip


def bare(graph: LayerGraph, brick: Brick) -> ir.Model:
    """The model without weights. InputError where a layer has the model's own numbers or texts in its attributes, or a
    constant is a text or boxes that can't be drawn."""
    model = network(graph, brick, "original")
    main = model.graph
    graphs = [main, *main.subgraphs()]
    for node in ir.traversal.RecursiveGraphIterator(main):
        refuse_own_numbers(node)
        refuse_own_texts(node)
    forget_sizes(model)
    for each in graphs:
        for value in in_order(each.initializers.values()):
            tensor = value.const_value
            assert tensor is not None and value.name is not None
            if tensor.dtype == ir.DataType.STRING:
                raise InputError("a constant of the model is a text, which is its own", field="model")
            places = {(node.op_type, place) for node, place in value.uses()}
            if _BOXES in places:
                raise InputError("the boxes of a MaxRoiPool are a constant, which is its own", field="model")
            uses = {operator for operator, _ in places} or {""}  # what a body gives as it is
            tables = any(is_own_table(tensor, operator, place) for operator, place in places)
            if tables or any(is_weight(tensor, operator) for operator in uses):
                del each.initializers[value.name]
                value.const_value = None
                value.shape, value.type = ir.Shape(tensor.shape.numpy()), ir.TensorType(tensor.dtype)
                main.inputs.append(value)
            elif (kept := _without_others(tensor, uses)) is not None:
                value.const_value = ir.tensor(kept, dtype=tensor.dtype, name=value.name)
    plain_versions(model)
    return model


def with_noise(model: ir.Model, key: str) -> ir.Model:
    """A model that ``bare`` made, in place, with weights that are drawn by the key: it runs by itself."""
    rng = np.random.default_rng(int(key[:16], 16))
    weights = [value for value in model.graph.inputs if (value.name or "").startswith("w")]
    for value in in_order(weights):
        assert value.shape is not None and value.dtype is not None
        places = [(node.op_type, place) for node, place in value.uses()]
        scales = any(operator in QUANTISED for operator, _ in places)
        drawn = noise(
            value.shape.numpy(), value.dtype.numpy(), rng, positive=scales or bool({*places} & _ABOVE_ZERO)
        )
        value.const_value = ir.tensor(drawn, dtype=value.dtype, name=value.name)
        model.graph.inputs.remove(value)
        model.graph.register_initializer(value)
    return model


def _without_others(tensor: ir.TensorProtocol, uses: set[str]) -> Array | None:
    """Of floats with a mask in them that are more than a mask: about what masks, where it does, and 0 elsewhere; else
    None. A mask has one number where it masks, and 0 or 1 elsewhere."""
    if not tensor.dtype.is_floating_point() or tensor.size <= 1 or uses & PARAMETRISED:
        return None
    original = tensor.numpy()
    numbers = floats(original)
    where = masked_or_infinite(numbers)
    if len(np.unique(numbers[where])) <= 1 and np.isin(numbers[~where], (0, 1)).all():
        return None
    return coarse_mask(numbers, original.dtype)
