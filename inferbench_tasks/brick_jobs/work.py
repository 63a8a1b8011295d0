"""How much work a brick is: a rough count, which decides on nothing but how evenly shards are filled."""

from __future__ import annotations

import math

import onnx_ir as ir

from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.layers import LayerGraph

#: Operators that multiply each output by a row of their weights, by the end of their names.
_PRODUCTS = ("Conv", "MatMul", "Gemm", "FusedMatMul", "FusedGemm", "FusedConv", "ConvTranspose")


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
        if layer.operator.rpartition(".")[2] in _PRODUCTS:
            largest = max(weights, key=math.prod, default=None)
            # A row is what one output channel is made of: all weights but the axis of the outputs.
            row = math.prod(largest) / max(1, largest[0]) if largest else taken[-1].shape[-1] if taken else 1
            flops += 2.0 * outputs * row
    return flops, moved


def _numbers(value: ir.Value) -> tuple[int, ...]:
    tensor = value.const_value
    return tuple(int(size) for size in tensor.shape.numpy()) if tensor is not None else ()
