"""A model as a graph of layers, with what each of them was fed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import onnx_ir as ir

from inferbench_tasks.bricks.constants import INTEGER_PRODUCTS
from inferbench_tasks.bricks.folding import fold
from inferbench_tasks.bricks.fusion import fused
from inferbench_tasks.bricks.layer import Layer, in_order, ordered_layers
from inferbench_tasks.bricks.records import Record, record_of
from inferbench_tasks.bricks.runtimes import DEFAULT, runtime_of
from inferbench_tasks.bricks.runtimes.base import BrickRuntime
from inferbench_tasks.bricks.saving import OUTSIDE_BYTES
from inferbench_tasks.bricks.views import View, view_of, viewed_model
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.exposed import run_exposed


@dataclass(frozen=True)
class LayerGraph:
    """The layers of one view in an order that follows from the graph alone, not from names or the file's order.

    ``records``: by name, every tensor that a layer takes or gives beside weights and constants. ``runtime``: by name,
    whose view it is. ``groups``: layers in a row that the runtime executes as one; empty where each is by itself.
    """

    model: ir.Model
    view: View
    instruction_set: str | None
    layers: tuple[Layer, ...]
    records: dict[str, Record]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    runtime: str = DEFAULT
    groups: tuple[range, ...] = ()

    @property
    def executed(self) -> tuple[range, ...]:
        """The executed layers, as ranges of ``layers``: what a granularity counts."""
        return self.groups or tuple(range(index, index + 1) for index in range(len(self.layers)))


def layer_graph(path: Path, feeds: Arrays, view: str, folder: Path, runtime: str = DEFAULT) -> LayerGraph:
    """The layers of an ONNX model as a view of a runtime has them, recorded in one run on ``feeds``.

    ``folder`` is written to, and must outlive the graph: weights are read from it when they are needed. InputError
    where the model can't be run with all values exposed, or hands on what is no tensor.
    """
    viewed, executing = view_of(view), runtime_of(runtime)
    executing.require_view(view)
    model = viewed_model(path, feeds, viewed, folder, executing)
    layers = ordered_layers(model.graph)
    arrays = run_exposed(ir.to_proto(model), feeds, folder)
    groups: tuple[range, ...] = ()
    if executing.fuses and view == "runtime":
        fold(model, layers, arrays)
        layers, groups = _grouped(model, feeds, executing, folder)
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
        executing.instruction_set() if viewed.processor else None,
        layers,
        records,
        tuple(value.name or "" for value in model.graph.inputs),
        tuple(value.name or "" for value in model.graph.outputs),
        runtime,
        groups,
    )


def _grouped(
    model: ir.Model, feeds: Arrays, runtime: BrickRuntime, folder: Path
) -> tuple[tuple[Layer, ...], tuple[range, ...]]:
    """The layers in an order in which those that are executed as one follow each other."""
    layers = ordered_layers(model.graph)
    names = [layer.node.name for layer in layers]
    for index, layer in enumerate(layers):
        layer.node.name = f"layer{index}"
    path = folder / "named.onnx"
    ir.save(model, path, external_data="named.weights", size_threshold_bytes=OUTSIDE_BYTES)
    groups = fused(layers, runtime.executed(path, feeds))
    for layer, name in zip(layers, names, strict=True):
        layer.node.name = name
    ends = list(accumulate(map(len, groups)))
    ranges = tuple(range(end - len(group), end) for end, group in zip(ends, groups, strict=True))
    return in_order([layers[index] for group in groups for index in group]), ranges
