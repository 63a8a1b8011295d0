"""Which integers mean something to an ONNX model: those that choose rows of its tables.

Made-up inputs of 0 and 1 would leave a table of 30,000 rows in the caches and the rest of it never read.
"""

from __future__ import annotations

from typing import Any

from inferbench_tasks.formats.macs import attribute, operator

#: What hands integers on as they are.
_SAME = {
    "Identity",
    "Cast",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Transpose",
    "Slice",
    "Expand",
    "Tile",
}


def index_bounds(model: Any) -> dict[str, int]:
    """Input -> the rows of the smallest table that it chooses from; inputs that choose from none are left out.

    ``model``: an ``onnx.ModelProto``; only the shapes of its weights are read.
    """
    from onnx import numpy_helper

    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        value = attribute(node, "value", None) if operator(node) == "Constant" else None
        if value is not None:
            tensors[node.output[0]] = value
    shapes = {name: tuple(tensor.dims) for name, tensor in tensors.items()}
    integers = (6, 7)  # int32 and int64
    small = {n: t for n, t in tensors.items() if t.data_type in integers and not t.external_data}
    values = {name: numpy_helper.to_array(tensor) for name, tensor in small.items()}
    origins = {value.name: value.name for value in model.graph.input if value.name not in shapes}
    bounds: dict[str, int] = {}
    for node in model.graph.node:
        if operator(node) in _SAME and node.input and node.input[0] in origins:
            origins[node.output[0]] = origins[node.input[0]]
        for position, rows in _choices(node, shapes, values):
            name = origins.get(node.input[position]) if position < len(node.input) else None
            if name and rows > 0:
                bounds[name] = min(bounds.get(name, rows), rows)
    return bounds


def _choices(node: Any, shapes: dict[str, tuple[int, ...]], values: dict[str, Any]) -> list[tuple[int, int]]:
    """(which of its inputs chooses, from how many) of an operator that looks rows up."""
    name = operator(node)
    table = shapes.get(node.input[0]) if node.input else None
    if name == "Gather" and table:
        return [(1, table[attribute(node, "axis", 0)])]
    if name in ("Equal", "OneHot"):
        of = values.get(node.input[1]) if len(node.input) > 1 else None
        if of is not None and of.size:  # compared with each of 0 ... n-1, or n itself
            return [(0, int(of.max()) + (1 if name == "Equal" and of.size > 1 else 0))]
    if name == "com.microsoft.EmbedLayerNormalization":
        tables = [shapes.get(table) for table in node.input[2:5]]  # of words, positions, segments
        return [
            (at, table[0])
            for at, table in ((0, tables[0]), (1, tables[2] if len(tables) > 2 else None))
            if table
        ]
    return []
