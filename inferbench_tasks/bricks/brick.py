"""A brick: consecutive layers of a model that make a network of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from inferbench_tasks.bricks.keys import identity_of, key_of
from inferbench_tasks.bricks.layer import Layer
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.sequences import INPUT, Needs, find_model_subgraphs


@dataclass(frozen=True)
class Brick:
    """``window``: its layers among the graph's. ``outputs``: all of its last layer, and what others take of the rest.

    ``key`` is that of the sequence, ``identity`` also that of the inputs it is measured on; see ``keys.py``.
    """

    window: range
    layers: tuple[Layer, ...]
    inputs: tuple[ir.Value, ...]
    outputs: tuple[ir.Value, ...]
    key: str
    identity: str

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(layer.operator for layer in self.layers)


def cut(graph: LayerGraph, granularity: int | None) -> Iterator[Brick]:
    """The model as bricks of at most ``granularity`` executed layers (None: one brick), each layer in exactly one.

    InputError where the granularity is above the number of executed layers.
    """
    executed = graph.executed
    windows = [
        range(executed[window.start].start, executed[window.stop - 1].stop)
        for window in find_model_subgraphs(_needs(graph), granularity)
    ]
    outside = set(graph.outputs)
    takers: dict[ir.Value, list[int]] = {}
    for index, layer in enumerate(graph.layers):
        for value in layer.inputs:
            takers.setdefault(value, []).append(index)
    for window in windows:
        yield _brick(graph, window, takers, outside)


def _needs(graph: LayerGraph) -> list[Needs]:
    """What each executed layer takes from which."""
    of = {index: at for at, window in enumerate(graph.executed) for index in window}
    needs = []
    for at, window in enumerate(graph.executed):
        layers = graph.layers[window.start : window.stop]
        inner = {value for layer in layers for value in layer.outputs}
        tensors = {value for layer in layers for value in layer.inputs} - inner
        before = {INPUT if index == INPUT else of[index] for layer in layers for index in layer.needs.layers}
        needs.append(Needs(len(tensors), frozenset(before - {at})))
    return needs


def _brick(graph: LayerGraph, window: range, takers: dict[ir.Value, list[int]], outside: set[str]) -> Brick:
    layers = tuple(graph.layers[index] for index in window)
    inner = {value for layer in layers for value in layer.outputs}
    taken = dict.fromkeys(value for layer in layers for value in layer.inputs if value not in inner)
    outputs = [
        value
        for layer in layers
        for value in layer.outputs
        if layer is layers[-1]
        or value.name in outside
        or any(taker not in window for taker in takers.get(value, ()))
    ]
    key = key_of(graph, layers, outputs)
    records = [graph.records[value.name or ""] for value in taken]
    return Brick(window, layers, tuple(taken), tuple(outputs), key, identity_of(key, layers, records))
