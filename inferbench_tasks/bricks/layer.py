"""One operator of a model's main graph, with what it takes; and all of them in an order of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from inferbench_tasks.bricks.sequences import INPUT, Needs


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


def _layer(node: ir.Node, index_of: Mapping[ir.Node, int]) -> Layer:
    inputs = tuple(values_taken(node))
    producers = [value.producer() for value in inputs]
    sources = frozenset(INPUT if producer is None else index_of[producer] for producer in producers)
    return Layer(node, inputs, Needs(len(inputs), sources))


def in_order(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """The same layers, as they stand in an order that is topological too."""
    index_of = {layer.node: index for index, layer in enumerate(layers)}
    return tuple(_layer(layer.node, index_of) for layer in layers)
