"""How much work a brick is: a rough count, which decides on how evenly shards are filled, and
which estimates are made of."""

from __future__ import annotations

import math

import numpy as np

from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.records import Record

#: Operators whose outputs are sums of products, by the end of their names: over a window, or over the last axis.
_CONVOLUTIONS = ("Conv", "FusedConv", "ConvTranspose", "QLinearConv", "ConvInteger")
_PRODUCTS = (
    "MatMul", "Gemm", "FusedMatMul", "FusedGemm", "QLinearMatMul", "QGemm", "MatMulInteger", "MatMulIntegerToFloat",
    "DynamicQuantizeMatMul",
)  # fmt: skip


def work_of(graph: LayerGraph, brick: Brick) -> tuple[float, float]:
    """(FLOP, bytes) of one run."""
    flops = moved = 0.0
    for layer in brick.layers:
        constants = [
            value.const_value
            for value in layer.node.inputs
            if value is not None and value.is_initializer() and value.const_value is not None
        ]
        weights = [tuple(int(size) for size in tensor.shape.numpy()) for tensor in constants]
        taken = [graph.records[value.name or ""] for value in layer.inputs]
        given = [graph.records[value.name or ""] for value in layer.outputs if value.name in graph.records]
        outputs = sum(math.prod(record.shape) for record in given)
        moved += sum(map(_bytes, (*given, *taken))) + sum(tensor.nbytes for tensor in constants)
        flops += outputs
        name = layer.operator.rpartition(".")[2]
        largest = max(weights, key=math.prod, default=None)
        if name in _CONVOLUTIONS and largest:
            # What one output is made of: all weights but the axis of the output channels.
            flops += 2.0 * outputs * math.prod(largest) / max(1, largest[0])
        elif name in _PRODUCTS and taken and taken[0].shape:
            flops += 2.0 * outputs * taken[0].shape[-1]
    return flops, moved


def _bytes(record: Record) -> float:
    """Those of a tensor; of a text about a word each."""
    kind = np.dtype(record.dtype)
    return float(math.prod(record.shape) * (8 if kind.kind in "OUS" else kind.itemsize))
