"""In which precision a model file keeps its weights: that of most of them, whatever its name says.

As of language models, it is of the weights: how a runtime computes with them is its own choice.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from inferbench_tasks.formats.macs import all_nodes, attribute, bodies, operator

FULL = "fp32"
#: ONNX's types of tensors -> what a model of such weights is called; sizes and indices are in others.
_CALLED = {
    "FLOAT": FULL, "DOUBLE": FULL, "FLOAT16": "fp16", "BFLOAT16": "bf16",
    "INT8": "int8", "UINT8": "int8", "INT4": "int4", "UINT4": "int4",
    "FLOAT8E4M3FN": "fp8", "FLOAT8E4M3FNUZ": "fp8", "FLOAT8E5M2": "fp8", "FLOAT8E5M2FNUZ": "fp8", "FLOAT4E2M1": "fp4",
}  # fmt: skip
#: Of whole numbers, or nearly: nothing is made of them that is not so already.
QUANTISED = ("int8", "int4", "fp8", "fp4")
#: Operators of ONNX Runtime whose weights are several numbers to a byte; ``bits`` says how many bits each has.
_PACKED = ("com.microsoft.MatMulNBits", "com.microsoft.GatherBlockQuantized")


def most(counts: Mapping[str, int]) -> str:
    """The precision that most weights have; full where there are none."""
    return max(counts, key=lambda name: counts[name]) if any(counts.values()) else FULL


def onnx_precision(model: Any) -> str:
    """Of an ``onnx.ModelProto``, whose weights may lie elsewhere: only their types and shapes are read.

    Weights that the graph itself quantises before they are used, as training for int8 leaves them, are int8.
    """
    from onnx import TensorProto

    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node] + all_nodes(model.graph)
    graphs += [body for node in nodes for body in bodies(node)]
    rounded = {n.input[0] for n in nodes if n.op_type == "QuantizeLinear"}
    packed = {n.input[1]: int(attribute(n, "bits", 4)) for n in nodes if operator(n) in _PACKED}
    counts: Counter[str] = Counter()
    for name, tensor in _tensors(graphs, nodes):
        kind = _CALLED.get(TensorProto.DataType.Name(tensor.data_type))
        if kind is None or not tensor.dims:
            continue
        count = math.prod(tensor.dims)
        if name in packed:
            kind, count = f"int{packed[name]}", count * 8 // packed[name]
        elif name in rounded and kind == FULL:
            kind = "int8"
        counts[kind] += count
    return most(counts)


def _tensors(graphs: list[Any], nodes: list[Any]) -> Iterator[tuple[str, Any]]:
    """Weights by name: initialisers and constants."""
    for graph in graphs:
        yield from ((tensor.name, tensor) for tensor in graph.initializer)
        yield from ((sparse.values.name, sparse.values) for sparse in graph.sparse_initializer)
    for node in nodes:
        if operator(node) == "Constant" and (value := attribute(node, "value", None)) is not None:
            yield node.output[0], value
