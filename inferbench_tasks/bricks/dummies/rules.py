"""What new sizes do to the constants of an operator: a rule for each type, all others by how they are broadcast."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir

Shape = tuple[int, ...]


class NoFit(Exception):
    """The drawn sizes do not go with this operator; ``fixed``: a size that should have stayed, 0 where none is to
    blame."""

    def __init__(self, why: str, fixed: int = 0) -> None:
        super().__init__(why)
        self.fixed = fixed


class Sizes(Protocol):
    """The sizes of the walk, see ``widths.py``."""

    def old(self, value: ir.Value) -> Shape:
        """As the model has it."""

    def new(self, value: ir.Value) -> Shape:
        """As the dummy has it."""

    def width(self, size: int) -> int:
        """What becomes of a number of channels."""

    def kernel(self, size: int) -> int:
        """What becomes of a kernel's side."""

    def reshaped(self, value: ir.Value, shape: Sequence[int]) -> None:
        """A constant of floats gets another shape."""

    def rewritten(self, node: ir.Node, place: int, values: Sequence[int]) -> None:
        """A constant of integers gets other values, for this operator alone."""


Rule = Callable[[ir.Node, Sizes], None]


def rule_of(node: ir.Node) -> Rule:
    """The rule of its type."""
    return RULES.get(node.op_type, broadcast) if not node.domain else broadcast


def _constant(node: ir.Node, place: int) -> ir.Value | None:
    value = node.inputs[place] if place < len(node.inputs) else None
    return value if value is not None and value.is_initializer() else None


def _integer(node: ir.Node, name: str, default: int = 0) -> int:
    return node.attributes[name].as_int() if name in node.attributes else default


def _set(node: ir.Node, name: str, value: Any) -> None:
    kind = ir.AttrInt64s if isinstance(value, (list, tuple)) else ir.AttrInt64
    node.attributes[name] = kind(name, value)


def convolution(node: ir.Node, sizes: Sizes) -> None:
    weight, taken = _constant(node, 1), node.inputs[0]
    if weight is None or taken is None:
        return
    outputs, each, *kernel = sizes.old(weight)
    group, channels = _integer(node, "group", 1), sizes.new(taken)[1]
    if group == sizes.old(taken)[1] and group > 1:  # one filter, or several, for each channel
        per, group = outputs // group, channels
        outputs, each = per * channels, 1
    else:
        outputs = max(group, sizes.width(outputs) // group * group)
        each, rest = divmod(channels, group)
        if rest:
            raise NoFit("channels that do not fill the groups", sizes.old(taken)[1])
    if group > 1:
        _set(node, "group", group)
    sizes.reshaped(weight, (outputs, each, *_kernel(node, kernel, sizes)))
    if (bias := _constant(node, 2)) is not None:
        sizes.reshaped(bias, (outputs,))


def _kernel(node: ir.Node, kernel: list[int], sizes: Sizes) -> list[int]:
    """Larger or smaller kernels with as much more or less padding: the outputs' sizes stay."""
    pads = list(node.attributes["pads"].as_ints()) if "pads" in node.attributes else []
    ones = [1] * len(kernel)
    dilations = list(node.attributes["dilations"].as_ints()) if "dilations" in node.attributes else ones
    wanted = [sizes.kernel(side) for side in kernel]
    more = [(new - old) // 2 * dilation for old, new, dilation in zip(kernel, wanted, dilations, strict=True)]
    if not any(more) or not pads or any(pad + by < 0 for pad, by in zip(pads, more * 2, strict=True)):
        return kernel
    _set(node, "pads", [pad + by for pad, by in zip(pads, more * 2, strict=True)])
    _set(node, "kernel_shape", wanted)
    return wanted


def transposed_convolution(node: ir.Node, sizes: Sizes) -> None:
    weight, taken = _constant(node, 1), node.inputs[0]
    if weight is None or taken is None:
        return
    _, each, *kernel = sizes.old(weight)
    if _integer(node, "group", 1) > 1:
        raise NoFit("a transposed convolution in groups")
    outputs = sizes.width(each)
    sizes.reshaped(weight, (sizes.new(taken)[1], outputs, *kernel))
    if (bias := _constant(node, 2)) is not None:
        sizes.reshaped(bias, (outputs,))


def gemm(node: ir.Node, sizes: Sizes) -> None:
    weight, taken = _constant(node, 1), node.inputs[0]
    if weight is None or taken is None:
        return
    across = sizes.new(taken)[0 if _integer(node, "transA") else 1]
    turned = bool(_integer(node, "transB"))
    outputs = sizes.width(sizes.old(weight)[0 if turned else 1])
    sizes.reshaped(weight, (outputs, across) if turned else (across, outputs))
    bias = _constant(node, 2)
    if bias is not None and math.prod(sizes.old(bias)) > 1:
        sizes.reshaped(bias, (*(1 for _ in sizes.old(bias)[1:]), outputs))


def product(node: ir.Node, sizes: Sizes) -> None:
    left, right = node.inputs[0], node.inputs[1]
    assert left is not None and right is not None
    if right.is_initializer() and not left.is_initializer():
        *rest, _, outputs = sizes.old(right) if len(sizes.old(right)) > 1 else (0, 0)
        if not outputs:
            sizes.reshaped(right, (sizes.new(left)[-1],))
            return
        sizes.reshaped(right, (*rest, sizes.new(left)[-1], sizes.width(outputs)))
    elif left.is_initializer() and not right.is_initializer():
        *rest, outputs, _ = sizes.old(left)
        sizes.reshaped(left, (*rest, outputs, sizes.new(right)[-2]))


def normalisation(node: ir.Node, sizes: Sizes) -> None:
    """One number for each channel."""
    taken = node.inputs[0]
    assert taken is not None
    for place in range(1, len(node.inputs)):
        if (value := _constant(node, place)) is not None:
            sizes.reshaped(value, (sizes.new(taken)[1],))


def embedding(node: ir.Node, sizes: Sizes) -> None:
    table, axis = _constant(node, 0), _integer(node, "axis")
    if table is None or not _floats(table):
        return
    old = sizes.old(table)
    axis %= len(old)
    sizes.reshaped(table, [size if at == axis else sizes.width(size) for at, size in enumerate(old)])


def recurrent(node: ir.Node, sizes: Sizes) -> None:
    taken = node.inputs[0]
    assert taken is not None
    before = _integer(node, "hidden_size")
    after = sizes.width(before)
    _set(node, "hidden_size", after)
    for place in range(1, len(node.inputs)):
        if place == 4 or (value := _constant(node, place)) is None:
            continue
        old = list(sizes.old(value))
        new = [size // before * after if size % before == 0 and size else size for size in old]
        if place == 1:
            new[2] = sizes.new(taken)[2]
        sizes.reshaped(value, new)


def reshape(node: ir.Node, sizes: Sizes) -> None:
    """The last size that can take up what changed does."""
    target, taken, given = _constant(node, 1), node.inputs[0], node.outputs[0]
    if target is None or taken is None:
        raise NoFit("a shape that is computed")
    before, after, shape = math.prod(sizes.old(taken)), math.prod(sizes.new(taken)), list(sizes.old(given))
    if before == after:
        return
    old, new = sizes.old(taken), sizes.new(taken)
    for place in reversed(range(len(shape))):
        size, rest = divmod(after * shape[place], before)
        if shape[place] > 1 and not rest and _of_the_changed(old, new, shape, place):
            sizes.rewritten(node, 1, [*shape[:place], size, *shape[place + 1 :]])
            return
    changed = next(one for one, other in zip(old, new, strict=True) if one != other)
    raise NoFit("a shape that the new sizes do not fill", changed)


def _of_the_changed(old: Shape, new: Shape, shape: Sequence[int], place: int) -> bool:
    """Whether a size of the new shape counts values of the size that changed, and not those around or inside of it: a
    head takes up a new width, the number of tokens never does."""
    changed = [at for at, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    if len(changed) != 1:
        return True
    inside, within = math.prod(old[changed[0] + 1 :]), math.prod(shape[place + 1 :])
    return max(inside, within) < min(inside * old[changed[0]], within * shape[place])


def split(node: ir.Node, sizes: Sizes) -> None:
    parts, taken = _constant(node, 1), node.inputs[0]
    if parts is None or taken is None:
        return
    axis = _integer(node, "axis")
    before, after = sizes.old(taken)[axis], sizes.new(taken)[axis]
    if before == after:
        return
    assert parts.const_value is not None
    wanted = [int(size) * after // before for size in parts.const_value.numpy()]
    if sum(wanted) != after or 0 in wanted:
        raise NoFit("parts that do not fill the new size", before)
    sizes.rewritten(node, 1, wanted)


def resize(node: ir.Node, sizes: Sizes) -> None:
    target, taken = _constant(node, 3), node.inputs[0]
    if target is None or taken is None:
        return
    shape = list(sizes.old(node.outputs[0]))
    shape[1] = sizes.new(taken)[1]
    if len(shape) == 4 and target.const_value is not None and target.const_value.size == 4:
        sizes.rewritten(node, 3, shape)


def broadcast(node: ir.Node, sizes: Sizes) -> None:
    """Constants follow the sizes of the largest other input where they had them; integers say nothing of sizes that
    changed, or the layer does not fit."""
    others = [v for v in node.inputs if v is not None and not v.is_initializer()]
    if not others:
        return
    main = max(others, key=lambda value: len(sizes.new(value)))
    old, new = sizes.old(main), sizes.new(main)
    for value in node.inputs:
        if value is None or not value.is_initializer() or not _floats(value):
            continue
        shape = list(sizes.old(value))
        for back in range(1, min(len(shape), len(old)) + 1):
            if shape[-back] == old[-back] and shape[-back] > 1:
                shape[-back] = new[-back]
        sizes.reshaped(value, shape)


def _floats(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and tensor.dtype.is_floating_point()


RULES: dict[str, Rule] = {
    "Conv": convolution,
    "ConvTranspose": transposed_convolution,
    "Gemm": gemm,
    "MatMul": product,
    "BatchNormalization": normalisation,
    "InstanceNormalization": normalisation,
    "Gather": embedding,
    "LSTM": recurrent,
    "GRU": recurrent,
    "RNN": recurrent,
    "Reshape": reshape,
    "Split": split,
    "Resize": resize,
}


def drawn(shape: Sequence[int], like: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Noise of a shape, of the kind of the constant that it replaces: no number of it is kept but zero and one, which
    are everybody's, and single ones, which decide on the work."""
    if like.size == 1:
        return np.full(tuple(shape), like.reshape(-1)[0]).astype(like.dtype)
    first = like.reshape(-1)[0]
    if first in (0, 1) and (like == first).all():
        return np.full(tuple(shape), first, like.dtype)
    if (like > 0).all():
        return rng.uniform(0.5, 1.5, tuple(shape)).astype(like.dtype)
    takes = math.prod(shape[1:]) if len(shape) > 2 else max(shape, default=1)
    return (rng.standard_normal(tuple(shape)) / math.sqrt(max(1, takes))).astype(like.dtype)
