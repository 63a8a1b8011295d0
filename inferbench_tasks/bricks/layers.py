"""A model as a graph of layers: each an operator of the main graph, with what it takes and what it was fed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from inferbench_tasks.bricks.constants import INTEGER_PRODUCTS
from inferbench_tasks.bricks.records import Record, record_of
from inferbench_tasks.bricks.sequences import INPUT, Needs
from inferbench_tasks.bricks.views import View, view_of, viewed_model
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.exposed import run_exposed


@dataclass(frozen=True)
class Layer:
    """One operator; a body (If, Loop, Scan) belongs to its operator, and with it what it takes from outside.

    ``inputs``: the distinct tensors that it takes beside weights and constants, in the order of their first use.
    """

    node: ir.Node
    inputs: tuple[ir.Value, ...]
    needs: Needs

    @property
    def operator(self) -> str:
        """The operator's name, with its domain unless that is ONNX's own."""
        domain = self.node.domain
        return f"{domain}.{self.node.op_type}" if domain else self.node.op_type

    @property
    def outputs(self) -> tuple[ir.Value, ...]:
        return tuple(value for value in self.node.outputs if value.name)


@dataclass(frozen=True)
class LayerGraph:
    """The layers of one view in an order that follows from the graph alone, not from names or the file's order.

    ``records``: by name, every tensor that a layer takes or gives beside weights and constants.
    """

    model: ir.Model
    view: View
    instruction_set: str | None
    layers: tuple[Layer, ...]
    records: dict[str, Record]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def layer_graph(path: Path, feeds: Arrays, view: str, folder: Path) -> LayerGraph:
    """The layers of an ONNX model as a view has them, recorded in one run on ``feeds``.

    ``folder`` is written to, and must outlive the graph: weights are read from it when they are needed. InputError
    where the model can't be run with all values exposed, or hands on what is no tensor.
    """
    viewed = view_of(view)
    model = viewed_model(path, feeds, viewed, folder)
    layers = ordered_layers(model.graph)
    arrays = run_exposed(ir.to_proto(model), feeds, folder)
    records = {}
    for layer in layers:
        for value in (*layer.inputs, *layer.outputs):
            assert value.name is not None
            if value.name in records:
                continue
            array = arrays.get(value.name)
            if not isinstance(array, np.ndarray):
                raise InputError(
                    f"the layer {layer.node.name or layer.operator} ({layer.operator}) hands on {value.name}, which is "
                    f"no tensor; bricks are fed with tensors"
                )
            records[value.name] = record_of(array, layer.node.op_type in INTEGER_PRODUCTS)
    return LayerGraph(
        model,
        viewed,
        viewed.instruction_set(),
        layers,
        records,
        tuple(value.name or "" for value in model.graph.inputs),
        tuple(value.name or "" for value in model.graph.outputs),
    )


def ordered_layers(graph: ir.Graph) -> tuple[Layer, ...]:
    """Depth first from the outputs: each layer after all that it takes, chains kept together."""
    index_of: dict[ir.Node, int] = {}
    layers: list[Layer] = []
    for output in graph.outputs:
        producer = output.producer()
        stack: list[tuple[ir.Node, Iterator[ir.Value]]] = []
        if producer is not None and producer not in index_of:
            stack.append((producer, iter(values_taken(producer))))
        while stack:
            node, rest = stack[-1]
            for value in rest:
                before = value.producer()
                if before is not None and before not in index_of:
                    stack.append((before, iter(values_taken(before))))
                    break
            else:
                stack.pop()
                if node not in index_of:
                    index_of[node] = len(layers)
                    layers.append(_layer(node, index_of))
    return tuple(layers)


def values_taken(node: ir.Node) -> list[ir.Value]:
    """The distinct tensors that an operator and its bodies take, but weights and constants; in order of first use."""
    taken = dict.fromkeys(value for value in node.inputs if value is not None)
    for body in bodies(node):
        taken |= dict.fromkeys(value for value in _named_in(body) if value.graph is node.graph)
    return [value for value in taken if not value.is_initializer() and value.name]


def _named_in(body: ir.Graph) -> Iterator[ir.Value]:
    """Every value that a body names, and the bodies in it: its own and those of the graphs around it."""
    for node in body:
        yield from (value for value in node.inputs if value is not None)
        for inner in bodies(node):
            yield from _named_in(inner)
    yield from body.outputs


def bodies(node: ir.Node) -> list[ir.Graph]:
    """The graphs among an operator's attributes."""
    graphs: list[ir.Graph] = []
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            graphs.append(attribute.as_graph())
        elif attribute.type == ir.AttributeType.GRAPHS:
            graphs += attribute.as_graphs()
    return graphs


def _layer(node: ir.Node, index_of: dict[ir.Node, int]) -> Layer:
    inputs = tuple(values_taken(node))
    producers = [value.producer() for value in inputs]
    sources = frozenset(INPUT if producer is None else index_of[producer] for producer in producers)
    return Layer(node, inputs, Needs(len(inputs), sources))
