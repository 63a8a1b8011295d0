"""How much work a brick is: a rough count, which decides on how evenly shards are filled, and
which estimates are made of."""

from __future__ import annotations

import math

import onnx_ir as ir

from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.layers import LayerGraph

#: Operators whose outputs are sums of products, by the end of their names: over a window, or over the last axis.
_CONVOLUTIONS = ("Conv", "FusedConv", "ConvTranspose")
_PRODUCTS = ("MatMul", "Gemm", "FusedMatMul", "FusedGemm")


def work_of(graph: LayerGraph, brick: Brick) -> tuple[float, float]:
    """(FLOP, bytes) of one run."""
    flops = moved = 0.0
    for layer in brick.layers:
        weights = [
            _numbers(value) for value in layer.node.inputs if value is not None and value.is_initializer()
        ]
        taken = [graph.records[value.name or ""] for value in layer.inputs]
        given = [graph.records[value.name or ""] for value in layer.outputs if value.name in graph.records]
        outputs = sum(math.prod(record.shape) for record in given)
        inputs = sum(math.prod(record.shape) for record in taken)
        moved += 4.0 * (outputs + inputs + sum(math.prod(shape) for shape in weights))
        flops += outputs
        name = layer.operator.rpartition(".")[2]
        largest = max(weights, key=math.prod, default=None)
        if name in _CONVOLUTIONS and largest:
            # What one output is made of: all weights but the axis of the output channels.
            flops += 2.0 * outputs * math.prod(largest) / max(1, largest[0])
        elif name in _PRODUCTS and taken and taken[0].shape:
            flops += 2.0 * outputs * taken[0].shape[-1]
    return flops, moved


def _numbers(value: ir.Value) -> tuple[int, ...]:
    tensor = value.const_value
    return tuple(int(size) for size in tensor.shape.numpy()) if tensor is not None else ()
