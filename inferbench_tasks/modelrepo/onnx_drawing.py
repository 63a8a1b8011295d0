"""What of an ONNX file draws random numbers: no answer of it could be checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from inferbench_tasks.formats.drawn import DRAWN
from inferbench_tasks.formats.macs import all_nodes, attribute, has_input


def drawing(model: Any) -> list[str]:
    """Its operators that draw, in bodies and functions too; a Dropout among them unless it is known to be off."""
    nodes = list(_nodes(model))
    found = {node.op_type for node in nodes} & DRAWN
    off = _known_to_be_off(model, nodes)
    if any(node.op_type == "Dropout" and has_input(node, 2) and node.input[2] not in off for node in nodes):
        found.add("Dropout in training")
    return sorted(found)


def _nodes(model: Any) -> Iterator[Any]:
    yield from all_nodes(model.graph)
    for function in model.functions:
        yield from all_nodes(function)


def _known_to_be_off(model: Any, nodes: list[Any]) -> set[str]:
    """Names of constants that are False wherever they stand: a body or a function may have one of the same name."""
    from onnx import TensorProto, numpy_helper

    tensors = [(tensor.name, tensor) for tensor in model.graph.initializer]
    tensors += [
        (node.output[0], value)
        for node in nodes
        if node.op_type == "Constant" and (value := attribute(node, "value", None)) is not None
    ]
    off: set[str] = set()
    on: set[str] = set()
    for name, tensor in tensors:
        is_off = tensor.data_type == TensorProto.BOOL and not tensor.external_data
        (off if is_off and not numpy_helper.to_array(tensor).any() else on).add(name)
    return off - on
