"""A model's bricks, and the model itself, as files that can be timed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np
import onnx_ir as ir

from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.layer import Layer
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.networks import network, network_feeds
from inferbench_tasks.bricks.saving import save_network
from inferbench_tasks.contracts.arrays import Arrays

#: After the identity of a brick whose sum the model can't write in place: it pays a copy, others of its key do not.
_COPIES = "-copies"
#: Convolutions that ONNX Runtime made of a convolution and a sum; the input that they add onto.
_ADDS_ONTO = {"com.microsoft.FusedConv": 3, "com.microsoft.nchwc.Conv": 3}


def brick_item(graph: LayerGraph, brick: Brick, folder: Path) -> Item:
    """The brick's network and its inputs, written to the folder."""
    name = timed_as(graph, brick)
    weights: Literal["plain", "noise"] = "plain" if graph.view.plain else "noise"
    path = save_network(network(graph, brick, weights), folder / f"{name}.onnx")
    return Item(
        name=name,
        path=path,
        feeds=_save(network_feeds(graph, brick), path),
        onto=tuple(_added_onto(graph, brick)),
    )


def timed_as(graph: LayerGraph, brick: Brick) -> str:
    """The name of the brick's result: its identity, and whether it copies what it adds onto."""
    adding = sum(_adds(layer) is not None and _adds(layer) in brick.inputs for layer in brick.layers)
    return brick.identity + _COPIES * (len(list(_added_onto(graph, brick))) < adding)


def whole_item(name: str, model: Path, feeds: Arrays, folder: Path) -> Item:
    """The model as it is served, and its inputs."""
    return Item(name=name, path=model, feeds=_save(feeds, folder / f"{name}.onnx"), whole=True)


def needs_of(bricks: list[Brick]) -> list[list[int]]:
    """For each brick the positions of those that it takes from."""
    giver = {value: index for index, brick in enumerate(bricks) for value in brick.outputs}
    return [sorted({giver[value] for value in brick.inputs if value in giver}) for brick in bricks]


def _added_onto(graph: LayerGraph, brick: Brick) -> Iterable[tuple[int, int]]:
    """(output, input) by position: outputs that the model writes onto an input that nobody takes afterwards, and that
    is not the caller's."""
    for offset, layer in zip(brick.window, brick.layers, strict=True):
        added, given = _adds(layer), layer.outputs[0]
        if added is None or added not in brick.inputs or given not in brick.outputs:
            continue
        later = any(added in other.inputs for other in graph.layers[offset + 1 :])
        if not later and not added.is_graph_input() and added.name not in graph.outputs:
            yield brick.outputs.index(given), brick.inputs.index(added)


def _adds(layer: Layer) -> ir.Value | None:
    """What a convolution adds onto; None for one without a sum, and for other layers."""
    place = _ADDS_ONTO.get(layer.operator)
    return layer.node.inputs[place] if place is not None and place < len(layer.node.inputs) else None


def _save(feeds: Arrays, path: Path) -> Path:
    target = path.with_suffix(".npz")
    np.savez(
        target,
        allow_pickle=False,
        **{n: a.astype(str) if a.dtype.kind == "O" else a for n, a in feeds.items()},
    )
    return target
