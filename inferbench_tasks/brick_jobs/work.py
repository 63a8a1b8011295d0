"""How much work a brick is: a rough count, which decides on how evenly shards are filled, and
which estimates are made of."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from inferbench_tasks.brick_jobs.counting import PRODUCTS
from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.layer import Layer
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.records import Record

#: Operators whose outputs are sums of products over a window, by the end of their names -> which operand has the
#: weights; by axes of output channels (of ``ConvTranspose`` input channels), then the others.
_CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3, "ConvTranspose": 1}


def work_of(graph: LayerGraph, brick: Brick) -> tuple[float, float]:
    """(FLOP, bytes) of one run: two for each multiply-add of convolutions and products, and one for each number that a
    layer gives. Of what is ``calibration.uncounted`` nothing but the latter is in it."""
    flops = moved = 0.0
    for layer in brick.layers:
        constants = [
            value.const_value
            for value in layer.node.inputs
            if value is not None and value.is_initializer() and value.const_value is not None
        ]
        taken = [graph.records[value.name or ""] for value in layer.inputs]
        given = [graph.records[value.name or ""] for value in layer.outputs if value.name in graph.records]
        outputs = sum(math.prod(record.shape) for record in given)
        moved += sum(map(_bytes, (*given, *taken))) + sum(tensor.nbytes for tensor in constants)
        flops += outputs + 2.0 * _multiply_adds(graph, layer, outputs)
    return flops, moved


def _multiply_adds(graph: LayerGraph, layer: Layer, outputs: int) -> float:
    """Those of a convolution or a product with so many numbers as its output; of another operator none."""
    name = layer.operator.rpartition(".")[2]
    shapes = [_shape(graph, value) for value in layer.node.inputs]
    place = _CONVOLUTIONS.get(name)
    if place is not None and len(shapes) > place and shapes[place]:
        weights = shapes[place]
        # What one number of the other side is multiplied with: all weights but the first axis, which are its channels.
        # A transposed convolution spreads each of its inputs, others gather each of their outputs.
        numbers = math.prod(shapes[0]) if name == "ConvTranspose" else outputs
        return float(numbers) * math.prod(weights) / max(1, weights[0])
    if name in PRODUCTS and shapes and shapes[0]:
        turned = layer.node.attributes.get("transA")
        first = shapes[0]
        return float(outputs) * (
            first[-2] if turned is not None and turned.value and len(first) > 1 else first[-1]
        )
    return 0.0


def _shape(graph: LayerGraph, value: ir.Value | None) -> tuple[int, ...]:
    """That of an operand, constant or not; () of one that is not there."""
    if value is None:
        return ()
    if value.is_initializer() and value.const_value is not None:
        return tuple(int(size) for size in value.const_value.shape.numpy())
    record = graph.records.get(value.name or "")
    return record.shape if record else ()


def _bytes(record: Record) -> float:
    """Those of a tensor; of a text about a word each."""
    kind = np.dtype(record.dtype)
    return float(math.prod(record.shape) * (8 if kind.kind in "OUS" else kind.itemsize))
