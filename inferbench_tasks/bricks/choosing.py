"""Where integers and truth values choose what is done: indices, shapes, axes, pads, repeats, bounds.

Anywhere else they are handed on or computed with: which ones they are makes no difference, so that in what is shown to
others they are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from inferbench_tasks.bricks.constants import is_weight
from inferbench_tasks.bricks.layer import bodies
from inferbench_tasks.bricks.records import SHARE_STEP
from inferbench_tasks.contracts.arrays import Array

#: More of them that don't choose are no settings, but the model's own numbers.
MOST_SETTINGS = 16
_REDUCING = (
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
    "ReduceSumSquare"
)
#: Operators -> the places of their inputs that choose.
_PLACES: dict[str, tuple[int, ...]] = {
    # Which rows: all of them must be there.
    "Gather GatherElements GatherND GatherBlockQuantized Scatter ScatterElements ScatterND": (1,),
    "ReverseSequence SequenceAt NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss": (1,),
    "OneHot EmbedLayerNormalization": (0, 1),
    "MaxUnpool": (1, 2),
    "RoiAlign SequenceInsert": (2,),
    "LSTM GRU RNN DynamicQuantizeLSTM": (4,),
    # How large, where from, how often.
    f"Reshape Expand Tile Squeeze Unsqueeze Split SplitToSequence TopK CumSum Trilu CenterCropPad {_REDUCING}": (
        1,
    ),
    "AffineGrid Upsample": (1,),
    "ConstantOfShape": (0,),
    "Range": (0, 1, 2),
    "Slice": (1, 2, 3, 4),
    "Pad": (1, 3),
    "Resize": (2, 3),
    "DFT": (1, 2),
    "NonMaxSuppression": (2,),
    # Whether, and how many.
    "NonZero Unique If Where": (0,),
    "Compress": (1,),
    "Loop": (0, 1),
    # Masks, lengths and positions.
    "Attention MultiHeadAttention": (3, 4, 5, 6),
    "GroupQueryAttention": (5, 6, 9),
    "RotaryEmbedding": (1, 3),
}
CHOOSING = {(name, place) for names, places in _PLACES.items() for name in names.split() for place in places}
#: A mask of other truth values can be taken as well.
_MASKS = {("Where", 0)}
#: They give numbers that they take, in other places or types: drawn ones choose what is there as well.
_MOVING = {
    "Identity", "Cast", "CastLike", "Gather", "GatherElements", "GatherND", "Reshape", "Transpose", "Squeeze",
    "Unsqueeze", "Flatten", "Slice", "Split", "Concat", "Expand", "Tile", "Pad", "If", "Loop", "Scan",
}  # fmt: skip
#: They give others: drawn ones may be too large.
_COMPUTING = {
    "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Sum", "Min", "Max", "Clip", "Pow", "Where", "CumSum", "BitShift",
    "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "And", "Or", "Xor", "Not", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "ScatterElements", "ScatterND", *_REDUCING.split(),
}  # fmt: skip


def is_own_weight(tensor: ir.TensorProtocol, uses: set[tuple[str, int]]) -> bool:
    """Whether a constant that is taken at these places is a weight; also what a body gives as it is, which no operator
    takes."""
    return any(is_weight(tensor, name) for name in {name for name, _ in uses} or {""})


def are_own_integers(tensor: ir.TensorProtocol, uses: set[tuple[str, int]]) -> bool:
    """Whether a constant is integers or truth values, too many for a setting, and no weights."""
    whole = tensor.dtype != ir.DataType.STRING and not tensor.dtype.is_floating_point()
    if not whole or tensor.size <= MOST_SETTINGS or is_own_weight(tensor, uses):
        return False
    numbers = tensor.numpy()
    return bool((numbers != numbers.flat[0]).any())


def chooses(constant: ir.Value, graph: ir.Graph) -> bool:
    """Whether a constant of a graph, or of its bodies, is taken where it chooses what is done; or what is computed of
    it is, which other numbers might not do."""
    if any((node.op_type, place) in CHOOSING for node, place in constant.uses()):
        return True
    givers = {id(body): node for node in ir.traversal.RecursiveGraphIterator(graph) for body in bodies(node)}
    left, seen = [(constant, False)], set()
    while left:
        value, computed = at = left.pop()
        if at in seen:
            continue
        seen.add(at)
        for node, place in value.uses():
            if (node.op_type, place) in CHOOSING - _MASKS:
                if computed:
                    return True
            elif node.op_type in _MOVING | _COMPUTING:
                left += [(given, computed or node.op_type in _COMPUTING) for given in _given(node)]
        if value.is_graph_output() and (giver := givers.get(id(value.graph))) is not None:
            left += [(given, computed) for given in giver.outputs]
    return False


def _given(node: ir.Node) -> Iterator[ir.Value]:
    yield from node.outputs
    for body in bodies(node):
        yield from body.inputs


def drawn_integers(original: Array, rng: np.random.Generator) -> Array:
    """Others from the least to the greatest of them; of truth values about as many that are true."""
    if original.dtype.kind == "b":
        share = round(float(original.mean()) / SHARE_STEP) * SHARE_STEP
        return rng.random(original.shape) < share
    drawn: Array = rng.integers(
        original.min(), original.max(), original.shape, endpoint=True, dtype=original.dtype
    )
    return drawn
