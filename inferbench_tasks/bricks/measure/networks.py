"""A model's bricks, and the model itself, as files that can be timed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.networks import network, network_feeds
from inferbench_tasks.bricks.sessions import save_network
from inferbench_tasks.contracts.arrays import Arrays

#: Convolutions that ONNX Runtime made of a convolution and a sum; the input that they add onto.
_ADDS_ONTO = {"com.microsoft.FusedConv": 3, "com.microsoft.nchwc.Conv": 3}


def brick_item(graph: LayerGraph, brick: Brick, folder: Path) -> Item:
    """The brick's network and its inputs, written to the folder."""
    path = save_network(network(graph, brick), folder / f"{brick.identity}.onnx")
    return Item(
        name=brick.identity,
        path=path,
        feeds=_save(network_feeds(graph, brick), path),
        onto=tuple(_added_onto(graph, brick)),
    )


def whole_item(name: str, model: Path, feeds: Arrays, folder: Path) -> Item:
    """The model as it is served, and its inputs."""
    return Item(name=name, path=model, feeds=_save(feeds, folder / f"{name}.onnx"), whole=True)


def needs_of(bricks: list[Brick]) -> list[list[int]]:
    """For each brick the positions of those that it takes from."""
    giver = {value: index for index, brick in enumerate(bricks) for value in brick.outputs}
    return [sorted({giver[value] for value in brick.inputs if value in giver}) for brick in bricks]


def _added_onto(graph: LayerGraph, brick: Brick) -> Iterable[tuple[int, int]]:
    """(output, input) by position: outputs that the model writes onto an input that nobody takes afterwards."""
    for offset, layer in zip(brick.window, brick.layers, strict=True):
        place = _ADDS_ONTO.get(layer.operator)
        if place is None or place >= len(layer.node.inputs):
            continue
        added, given = layer.node.inputs[place], layer.outputs[0]
        later = any(added in other.inputs for other in graph.layers[offset + 1 :])
        if added in brick.inputs and given in brick.outputs and not later and added.name not in graph.outputs:
            yield brick.outputs.index(given), brick.inputs.index(added)


def _save(feeds: Arrays, path: Path) -> Path:
    target = path.with_suffix(".npz")
    np.savez(
        target,
        allow_pickle=False,
        **{n: a.astype(str) if a.dtype.kind == "O" else a for n, a in feeds.items()},
    )
    return target
