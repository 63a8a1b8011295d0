"""A sequence's key: the SHA-256 over all that decides its work, and nothing else.

Domain, operator, attributes, edges under names of their own, shapes and types, and the values of integer, boolean and
one-element constants; never a weight, a name or an order of a file. ``identity`` adds what the measured inputs are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from inferbench_tasks.bricks.attributes import described_attributes, since_version
from inferbench_tasks.bricks.constants import constant_digest, is_weight
from inferbench_tasks.bricks.layer import Layer, bodies
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.records import Record

#: Raised by one whenever a key is made of something else than before.
RECIPE = 1
#: Their time depends on the values: ranges, masks and zeros of a brick's inputs are then part of the measurement.
VALUE_SENSITIVE = {
    "Softmax", "LogSoftmax", "QuickGelu", "FastGelu", "BiasGelu", "Gelu", "Exp", "Log", "Pow", "Erf", "Sigmoid",
    "Tanh", "Softplus", "Mish", "Elu", "Selu", "Celu", "Swish", "HardSwish", "Sqrt", "Sin", "Cos", "LSTM", "GRU",
    "RNN", "Attention", "MultiHeadAttention", "BiasSoftmax", "If", "Loop", "Scan", "NonZero", "NonMaxSuppression",
}  # fmt: skip


def key_of(graph: LayerGraph, layers: Sequence[Layer], outputs: Sequence[ir.Value]) -> str:
    """The key of consecutive layers that hand on ``outputs``, in hex digits."""
    names: dict[ir.Value, str] = {}
    described = [_described(graph, layer.node, names) for layer in layers]
    values = {name: _typed(graph, value) for value, name in names.items() if value.graph is graph.model.graph}
    document = {
        "recipe": RECIPE,
        "instruction_set": graph.instruction_set,
        "layers": described,
        "values": values,
        "outputs": [names[value] for value in outputs],
    }
    return _digest(document)


def identity_of(key: str, layers: Sequence[Layer], records: Sequence[Record]) -> str:
    """The key with what the sequence is measured on; ``records``: of its inputs, in order.

    Two layers of one key are one measurement unless their integers differ (but those that are computed with), or their
    operators take another time for other values and their ranges, masks or zeros differ.
    """
    sensitive = any(layer.node.op_type in VALUE_SENSITIVE for layer in layers)
    inputs: list[Any] = []
    for record in records:
        if record.content is not None and (sensitive or not record.computed):
            inputs.append(record.content_digest())
        elif sensitive and record.spread is not None:
            inputs.append(record.spread.digest_material())
        else:
            inputs.append(None)
    return _digest({"key": key, "inputs": inputs})


def _described(graph: LayerGraph, node: ir.Node, names: dict[ir.Value, str]) -> dict[str, Any]:
    opset = graph.model.graph.opset_imports.get(node.domain, 1)
    inputs = [None if v is None else _named(v, node.op_type, names) for v in node.inputs]
    while inputs and inputs[-1] is None:
        inputs.pop()  # an optional input left out at the end is no input
    return {
        "domain": node.domain,
        "operator": node.op_type,
        "version": since_version(node.domain, node.op_type, opset),
        "attributes": described_attributes(node, opset),
        "inputs": inputs,
        "outputs": [names.setdefault(v, f"v{len(names)}") if v.name else None for v in node.outputs],
        "bodies": [_body(graph, body, names) for body in bodies(node)],
    }


def _body(graph: LayerGraph, body: ir.Graph, names: dict[ir.Value, str]) -> dict[str, Any]:
    inputs = [names.setdefault(value, f"v{len(names)}") for value in body.inputs]
    return {
        "inputs": inputs,
        "layers": [_described(graph, node, names) for node in body],
        "outputs": [_named(value, "", names) for value in body.outputs],
    }


def _named(value: ir.Value, operator: str, names: dict[ir.Value, str]) -> Any:
    """The value's own name within the sequence; of a constant also what it is."""
    name = names.setdefault(value, f"v{len(names)}")
    tensor = value.const_value if value.is_initializer() else None
    if tensor is None:
        return name
    known = None if is_weight(tensor, operator) else constant_digest(tensor)
    return [name, tensor.dtype.name, list(tensor.shape.numpy()), known]


def _typed(graph: LayerGraph, value: ir.Value) -> list[Any] | None:
    record = graph.records.get(value.name or "")
    return None if record is None else [record.dtype, list(record.shape)]


def _digest(document: dict[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()
