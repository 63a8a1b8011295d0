"""How many weights an ONNX model has, wherever its graph keeps them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from inferbench_tasks.formats.macs import all_nodes, attribute, bodies, operator

_WEIGHTS = """FLOAT DOUBLE FLOAT16 BFLOAT16 INT8 UINT8 INT4 UINT4 FLOAT8E4M3FN FLOAT8E4M3FNUZ FLOAT8E5M2 FLOAT8E5M2FNUZ
FLOAT4E2M1"""


def count_parameters(model: Any) -> int:
    """Floats and quantised values of initialisers, constants and classical operators, of bodies and functions too.

    Not the sizes, axes and single numbers that graphs keep likewise. ``model``: an ``onnx.ModelProto``, whose weights
    may lie elsewhere: only their shapes are read.
    """
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    graphs += [body for node in nodes for body in bodies(node)]
    for graph in list(graphs):
        inner = all_nodes(graph)
        nodes += inner
        graphs += [body for node in inner for body in bodies(node)]
    total = 0
    for graph in graphs:
        total += sum(_of(tensor) for tensor in graph.initializer)
        total += sum(_of(sparse.values) for sparse in graph.sparse_initializer)
    return total + sum(_of_node(node) for node in nodes)


def parameters_of(path: Path) -> int:
    """As ``count_parameters``, of a file."""
    import onnx

    return count_parameters(onnx.load(path, load_external_data=False))


def _of(tensor: Any) -> int:
    from onnx import TensorProto

    weights = {getattr(TensorProto, name) for name in _WEIGHTS.split() if hasattr(TensorProto, name)}
    return math.prod(tensor.dims) if tensor.data_type in weights and tensor.dims else 0


def _of_node(node: Any) -> int:
    if node.domain == "ai.onnx.ml":
        floats = (given for given in node.attribute if not given.name.endswith("hitrates"))
        return sum(len(given.floats) for given in floats)
    if operator(node) != "Constant":
        return 0
    value, sparse = attribute(node, "value", None), attribute(node, "sparse_value", None)
    return (
        len(attribute(node, "value_floats", ()))
        + (_of(value) if value is not None else 0)
        + (_of(sparse.values) if sparse is not None else 0)
    )
