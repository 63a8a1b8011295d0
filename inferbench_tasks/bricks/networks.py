"""A brick as an ONNX model that checks, loads and runs by itself, under names of its own."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.constants import in_order, is_weight
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.plain import make_plain, plain_feeds
from inferbench_tasks.bricks.records import Record
from inferbench_tasks.contracts.arrays import Array, Arrays


def network(
    graph: LayerGraph, brick: Brick, weights: Literal["noise", "original", "plain"] = "noise"
) -> ir.Model:
    """The brick's model: inputs ``x0, x1 ...`` and outputs in the brick's order, with the recorded shapes.

    ``noise``: its weights are drawn anew, seeded by its key, in the range and spread of the original ones (a variance
    stays positive). Names, documentation and metadata of the model that it came from are gone. ``plain``: no number of
    the original ones is left that does not decide on the work; see ``plain.py``.
    """
    piece = ir.convenience.extract(graph.model.graph, inputs=brick.inputs, outputs=brick.outputs)
    for values, originals in ((piece.inputs, brick.inputs), (piece.outputs, brick.outputs)):
        for value, original in zip(values, originals, strict=True):
            record = graph.records[original.name or ""]
            value.shape, value.type = ir.Shape(record.shape), ir.TensorType(_data_type(record))
    model = ir.Model(piece, ir_version=graph.model.ir_version)
    common.ClearMetadataAndDocStringPass()(model)
    common.RemoveUnusedOpsetsPass()(model)
    _rename(piece)
    rng = np.random.default_rng(int(brick.key[:16], 16))
    if weights == "noise":
        _draw_weights(piece, rng)
    elif weights == "plain":
        make_plain(model, rng)
    return model


def network_feeds(graph: LayerGraph, brick: Brick, seed: int = 0) -> Arrays:
    """Inputs for a brick's network: recorded integers, booleans and texts; floats like the recorded ones. In a view
    that may be shown they are those of ``plain.py``."""
    if graph.view.plain:
        return plain_feeds(graph, brick, seed)
    rng = np.random.default_rng(seed)
    return {
        f"x{index}": graph.records[value.name or ""].values_like(rng)
        for index, value in enumerate(brick.inputs)
    }


def _data_type(record: Record) -> ir.DataType:
    if record.dtype.startswith(("str", "object", "bytes")):
        return ir.DataType.STRING
    return ir.DataType.from_numpy(np.dtype(record.dtype))


def _rename(graph: ir.Graph) -> None:
    """Names by position: the same brick of two models is the same file but for its weights."""
    graph.name = "brick"
    for index, value in enumerate(graph.inputs):
        value.name = f"x{index}"
    graphs = [graph, *graph.subgraphs()]
    constants: dict[ir.Value, None] = {}
    count = 0
    for number, node in enumerate(ir.traversal.RecursiveGraphIterator(graph)):
        node.name = f"layer{number}"
        constants |= dict.fromkeys(v for v in node.inputs if v is not None and v.is_initializer())
        for value in node.outputs:
            if value.name:
                value.name, count = f"y{count}", count + 1
    for number, body in enumerate(graphs[1:]):
        body.name = f"body{number}"
        for value in body.inputs:
            value.name, count = f"b{count}", count + 1
    for each in graphs:
        constants |= dict.fromkeys(each.initializers.values())
    # The model may have such names itself, of other constants: first to some that are longer than all of them.
    aside = "_" * (1 + max((len(value.name or "") for value in constants), default=0))
    for start in (aside, ""):
        for index, value in enumerate(constants):
            value.name = f"{start}w{index}"


def _draw_weights(graph: ir.Graph, rng: np.random.Generator) -> None:
    for each in (graph, *graph.subgraphs()):
        for value in in_order(each.initializers.values()):
            tensor = value.const_value
            operators = {node.op_type for node, _ in value.uses()}
            if tensor is None or not any(is_weight(tensor, operator) for operator in operators):
                continue
            noise = _noise(tensor.numpy(), rng)
            value.const_value = ir.tensor(noise, dtype=tensor.dtype, name=value.name)


def _noise(original: Array, rng: np.random.Generator) -> Any:
    values = original.astype(np.float32, copy=False)
    low, high = float(values.min()), float(values.max())
    if original.dtype.kind in "iu":
        return rng.integers(int(low), int(high), original.shape, endpoint=True).astype(original.dtype)
    noise = rng.standard_normal(original.shape, dtype=np.float32)
    noise = noise * np.float32(values.std()) + np.float32(values.mean())
    outside = (noise <= low) | (
        noise >= high
    )  # drawn again: clipped they would be two of the original values
    noise[outside] = rng.uniform(low, high, int(outside.sum()))
    return noise.astype(original.dtype)
