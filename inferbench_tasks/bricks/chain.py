"""The proof that a model was cut right: its bricks, run one after the other, give what the whole gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from inferbench_tasks.bricks.brick import Brick
from inferbench_tasks.bricks.constants import QUANTISED
from inferbench_tasks.bricks.layers import LayerGraph
from inferbench_tasks.bricks.networks import network
from inferbench_tasks.bricks.runtimes import runtime_of
from inferbench_tasks.contracts.arrays import Array, Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.exposed import run_exposed

#: What differently ordered sums may differ by.
TOLERANCE_RATIO = 1e-4
#: One step of half precision: the same sum in another order may be rounded to the next number.
HALF_RATIO = 2.0**-10
#: Quantised, such a difference may be a whole step in each of the layers that follow. The bricks are compared with the
#: graph that they were cut from, whose layers are the same; the answer is that of another run of the optimiser.
QUANTISED_ANSWER_RATIO = 0.1


@dataclass(frozen=True)
class Proof:
    """Largest differences over the largest value, per tensor; infinite where shapes or types differ.

    ``edges_ratio``: every tensor between two bricks against the graph run as a whole. ``answer_ratio``: the last ones
    against the answer of the model as it is served. The first is needed: a network with random weights may answer much
    the same whatever it is fed.
    """

    edges: int
    edges_ratio: float
    answer_ratio: float
    edges_allowed_ratio: float = TOLERANCE_RATIO
    answer_allowed_ratio: float = TOLERANCE_RATIO

    @property
    def holds(self) -> bool:
        return self.edges_ratio <= self.edges_allowed_ratio and self.answer_ratio <= self.answer_allowed_ratio


def prove(graph: LayerGraph, bricks: Sequence[Brick], feeds: Arrays, answer: Arrays, weights: Path) -> Proof:
    """Chain the bricks with their original weights and compare what they give.

    ``answer``: the model's own, by the names of its outputs; ``weights``: the folder that the graph was made in.
    InputError names the layers of a brick that can't be run by itself.
    """
    chained = chained_values(graph, bricks, feeds)
    whole = run_exposed(ir.to_proto(graph.model), feeds, weights)
    edges = [value.name or "" for brick in bricks for value in brick.outputs]
    return Proof(
        len(edges),
        max((difference(chained[name], whole[name]) for name in edges), default=0.0),
        max((difference(chained[name], answer[name]) for name in graph.outputs), default=0.0),
        *_allowed(graph),
    )


def _allowed(graph: LayerGraph) -> tuple[float, float]:
    """What tensors between bricks, and the answer, may differ by."""
    if any(layer.node.op_type in QUANTISED for layer in graph.layers):
        return TOLERANCE_RATIO, QUANTISED_ANSWER_RATIO
    if any(record.dtype == "float16" for record in graph.records.values()):
        return HALF_RATIO, HALF_RATIO
    return TOLERANCE_RATIO, TOLERANCE_RATIO


def chained_values(graph: LayerGraph, bricks: Sequence[Brick], feeds: Arrays) -> Arrays:
    """All that the bricks give, by the graph's names; each is fed with what those before it gave."""
    runtime = runtime_of(graph.runtime)
    values = {name: feeds[name] for name in graph.inputs}
    values |= {  # an output that no layer gives
        value.name or "": value.const_value.numpy()
        for value in graph.model.graph.outputs
        if value.const_value is not None
    }
    for brick in bricks:
        inputs = {f"x{index}": values[value.name or ""] for index, value in enumerate(brick.inputs)}
        try:
            arrays = runtime.answers(network(graph, brick, "original"), inputs)
        except Exception as error:
            names = " > ".join(layer.node.name or layer.operator for layer in brick.layers)
            raise InputError(f"the brick of {names} can't be run by itself: {error}") from error
        values |= {value.name or "": array for value, array in zip(brick.outputs, arrays, strict=True)}
    return values


def difference(chained: Array, whole: Array) -> float:
    """max|chained - whole| / max|whole|; 0 for equal infinities, infinite where they can't be compared."""
    if chained.shape != whole.shape or chained.dtype != whole.dtype:
        return math.inf
    if np.array_equal(chained, whole):
        return 0.0
    if whole.dtype.kind != "f":
        return math.inf
    one, other = chained.astype(np.float64), whole.astype(np.float64)
    finite = np.isfinite(other)
    if not np.array_equal(one[~finite], other[~finite]) or not np.isfinite(one[finite]).all():
        return math.inf
    apart = float(np.abs(one[finite] - other[finite]).max(initial=0.0))
    scale = float(np.abs(other[finite]).max(initial=0.0))
    return apart / scale if scale else (0.0 if apart == 0 else math.inf)
