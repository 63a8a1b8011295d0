"""Make the fixed batch axis of an ONNX graph free.

A graph that was exported for a batch of 1 has that 1 in its inputs, in the constants of its Reshapes, in initial states
and in what is joined to each sample. Where the batch axis of every value lies is followed through the graph, with the
shapes of a real run; what is written down of it is made free there. Whether it was enough is not concluded from that:
whoever calls this compares the answers (``modelrepo.onnx_file``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from inferbench_tasks.contracts.arrays import Array
from inferbench_tasks.formats import onnx_edges
from inferbench_tasks.formats.macs import attribute, has_input, operator
from inferbench_tasks.formats.onnx import keep_outputs


class BatchStuckError(Exception):
    """The graph's own operators need the batch as it is; the message names them."""


class Freed:
    """A graph while its batch is made free. ``at``: the batch axis of every value that has one.

    ``values``: every value in one run with ``batch`` rows (see ``formats.exposed``). ``static``: no other size is free,
    so that what is computed from sizes is a constant.
    """

    def __init__(self, model: Any, values: dict[str, Any], batch: int, static: bool) -> None:
        from onnx import numpy_helper

        self._model = model
        self.graph, self.batch, self.values = model.graph, batch, values
        self.values |= {
            t.name: numpy_helper.to_array(t) for t in self.graph.initializer if not t.external_data
        }
        self.static = static
        self._written = {tensor.name for tensor in self.graph.initializer}
        self._written |= {
            name for node in self.graph.node if operator(node) == "Constant" for name in node.output
        }
        self.at: dict[str, int] = {}
        self.outer: dict[str, int] = {}
        self._before: list[Any] = []

    def run(self) -> None:
        """Change the graph; BatchStuckError, half changed, where that is not possible."""
        batch = self._unused_axis()
        for value in self.graph.input:
            self.at[value.name] = 0
            value.type.tensor_type.shape.dim[0].dim_param = batch
        del self.graph.value_info[:]
        nodes = []
        for node in self.graph.node:
            if any(name in self.at for name in node.input):
                _STEPS.get(operator(node), _same_place)(self, node)
            nodes += [*self._before, node]
            self._before = []
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        keep_outputs(self.graph, tuple(value.name for value in self.graph.output))
        for value in self.graph.output:
            if value.name not in self.at:
                raise BatchStuckError(f"the output {value.name} has no batch axis")
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                if axis == self.at[value.name]:
                    dim.dim_param = batch
            if self.at[value.name] != 0 or self.outer.get(value.name, 1) != 1:
                raise BatchStuckError(f"the batch axis of the output {value.name} is not its first")

    def _unused_axis(self) -> str:
        """The batch axis' name: axes of one name are of one size, and a runtime may share their memory."""
        values = [*self.graph.input, *self.graph.output]
        taken = {dim.dim_param for value in values for dim in value.type.tensor_type.shape.dim}
        name = "batch"
        while name in taken:
            name += "_"
        return name

    def shape(self, name: str) -> tuple[int, ...]:
        """A value's shape in the run."""
        value = self.values.get(name)
        if not isinstance(value, np.ndarray):
            raise BatchStuckError(f"the shape of {name} is not known")
        return tuple(value.shape)

    def put(self, node: Any, name: str, axis: int, outer: int | None = None) -> None:
        """The batch of the node's output ``name`` lies at this axis, behind ``outer`` others where they were merged."""
        shape = self.shape(name)
        outer = outer or max(self.outer.get(given, 1) for given in node.input if given in self.at)
        if not 0 <= axis < len(shape) or shape[axis] % (self.batch * outer):
            raise BatchStuckError(f"{operator(node)} ({node.output[0]}) removes or changes the batch axis")
        self.at[name], self.outer[name] = axis, outer

    def constant(self, name: str) -> Array | None:
        """What a value always is, where it doesn't follow from the inputs; None otherwise."""
        value = self.values.get(name)
        known = name not in self.at and (self.static or name in self._written)
        return value if known and isinstance(value, np.ndarray) else None

    def ends(self, name: str) -> bool:
        """Whether a value is an output and nothing else is computed from it; its declared shape is dropped then."""
        output = next((value for value in self.graph.output if value.name == name), None)
        if output is None or any(name in node.input for node in self.graph.node):
            return False
        output.type.tensor_type.ClearField("shape")
        return True

    def give_axes(self, node: Any, axes: list[int]) -> None:
        """Say which axes a Squeeze is about."""
        onnx_edges.give_axes(self._model, node, axes)

    def new(self, array: Array, like: str) -> str:
        """A new weight; its name."""
        from onnx import numpy_helper

        name = f"{like}/free_batch_{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def before(self, kind: str, inputs: list[str], like: str, **attributes: Any) -> str:
        """A new node before the one that is looked at; the name of its output."""
        from onnx import helper

        name = f"{like}/free_batch_{kind}_{len(self.graph.initializer)}_{len(self._before)}"
        self._before.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def spread(self, node: Any, index: int, axis: int, like: str) -> None:
        """Repeat a constant input, whose rows along ``axis`` are equal, for each sample of the value ``like``."""
        name = node.input[index]
        array = self.constant(name)
        if array is None:
            raise BatchStuckError(f"{operator(node)} ({node.output[0]}) has an input of its own batch")
        row = np.take(array, [0], axis=axis)
        if not np.array_equal(np.broadcast_to(row, array.shape), array):
            raise BatchStuckError(
                f"{operator(node)} ({node.output[0]}) has a constant for each of the batch's rows"
            )
        count = self.before("Gather", [self.size(like), self.new(np.array([self.at[like]]), like)], like)
        ones = [self.new(np.ones(n, np.int64), like) for n in (axis, array.ndim - axis - 1)]
        sizes = [ones[0], count, ones[1]]
        target = self.before("Concat", sizes, like, axis=0)
        node.input[index] = self.before("Expand", [self.new(row, name), target], name)

    def size(self, name: str) -> str:
        """The shape of a value while it runs."""
        return self.before("Shape", [name], name)


def _source(freed: Freed, node: Any) -> str:
    return str(next(name for name in node.input if name in freed.at))


def _same_place(freed: Freed, node: Any) -> None:
    """Most operators keep the axis where it is, counted from the end where they broadcast."""
    if any(given.HasField("g") for given in node.attribute):
        raise BatchStuckError(f"{operator(node)} ({node.output[0]}) has a body")
    if operator(node) in ("Shape", "Size"):
        return  # computed from the real sizes as they come
    source = _source(freed, node)
    rank, axis = len(freed.shape(source)), freed.at[source]
    for index, name in enumerate(node.input):
        array = freed.constant(name) if operator(node) in _BROADCAST else None
        place = axis - rank + array.ndim if array is not None else -1
        if array is not None and operator(node) == "MatMul" and place >= array.ndim - 2:
            continue  # an axis of the product itself
        if array is not None and place >= 0 and array.shape[place] == freed.batch > 1:
            freed.spread(node, index, place, source)
    for name in node.output:
        if name:
            moved = len(freed.shape(name)) - rank if operator(node) in _BROADCAST else 0
            freed.put(node, name, axis + moved)


def _transpose(freed: Freed, node: Any) -> None:
    rank = len(freed.shape(node.input[0]))
    order = list(attribute(node, "perm", range(rank)[::-1]))
    freed.put(node, node.output[0], order.index(freed.at[node.input[0]]))


def _reshape(freed: Freed, node: Any) -> None:
    """In row-major order the batch lies behind as many values as before: that tells the axis that it comes to."""
    given, shape = freed.shape(node.input[0]), freed.shape(node.output[0])
    axis, outer = _place(freed, node, given, shape)
    written = freed.constant(node.input[1]) if operator(node) == "Reshape" else None
    if written is not None:
        open_sizes = [i for i, size in enumerate(written.tolist()) if size == -1 and i != axis]
        if open_sizes and not freed.static:
            if (
                axis != freed.at[node.input[0]]
                or shape[axis] != freed.batch
                or attribute(node, "allowzero", 0)
            ):
                raise BatchStuckError(f"Reshape ({node.output[0]}) has two open sizes then")
            sizes = [0 if i == axis else size for i, size in enumerate(written.tolist())]
        else:
            known = shape if freed.static else written.tolist()
            sizes = [-1 if i == axis else size for i, size in enumerate(known)]
        node.input[1] = freed.new(np.array(sizes, np.int64), node.output[0])
    freed.put(node, node.output[0], axis, outer)


def _place(freed: Freed, node: Any, given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int]:
    """(axis, how many lie before the batch within it) after a Reshape.

    An axis of its own; else merged into the one before, if what follows it stays as it was; else into the next.
    """
    at = freed.at[node.input[0]]
    before = math.prod(given[:at]) * freed.outer.get(node.input[0], 1)
    begins = [math.prod(shape[:axis]) for axis in range(len(shape))]
    starts = [axis for axis, begin in enumerate(begins) if begin == before]
    own = next((axis for axis in starts if shape[axis] == freed.batch), None)
    if own is not None:
        return own, 1
    stays = at + 1 < len(given) and any(shape[axis] == given[at + 1] for axis in starts)
    inside = [
        a for a, begin in enumerate(begins) if begin < before and begin * shape[a] >= before * freed.batch
    ]
    if inside and (stays or not starts) and before % begins[inside[-1]] == 0:
        return inside[-1], before // begins[inside[-1]]
    if starts:
        return starts[0], 1
    raise BatchStuckError(f"Reshape ({node.output[0]}) divides the batch axis")


def _axes(freed: Freed, node: Any, rank: int) -> list[int] | None:
    axes = attribute(node, "axes", None)
    if axes is None and has_input(node, 1):
        array = freed.constant(node.input[1])
        axes = None if array is None else array.tolist()
    return None if axes is None else sorted(axis % rank for axis in axes)


def _squeeze(freed: Freed, node: Any) -> None:
    """An output without the batch axis of 1 that it had gets it back; what is computed further without it can't."""
    shape, at = freed.shape(node.input[0]), freed.at[node.input[0]]
    axes = _axes(freed, node, len(shape))
    if axes is None and freed.static:
        axes = [axis for axis, size in enumerate(shape) if size == 1]
        if at not in axes and axes:  # or it would take the batch axis too where one sample comes alone
            freed.give_axes(node, axes)
    if axes and at in axes and at == 0 and freed.ends(node.output[0]):
        axes.remove(at)
        del node.attribute[:], node.input[1:]
        if axes:
            freed.give_axes(node, axes)
        else:
            node.op_type = "Identity"
        freed.values[node.output[0]] = freed.values[node.output[0]][np.newaxis]
    if axes is None or at in axes:
        raise BatchStuckError(f"Squeeze ({node.output[0]}) removes the batch axis")
    freed.put(node, node.output[0], at - sum(axis < at for axis in axes))


def _unsqueeze(freed: Freed, node: Any) -> None:
    axes = _axes(freed, node, len(freed.shape(node.output[0]))) or []
    at = freed.at[node.input[0]]
    for axis in axes:
        at += axis <= at
    freed.put(node, node.output[0], at)


def _reduce(freed: Freed, node: Any) -> None:
    rank, at = len(freed.shape(node.input[0])), freed.at[node.input[0]]
    axes = _axes(freed, node, rank) if operator(node) not in ("ArgMax", "ArgMin") else None
    if operator(node) in ("ArgMax", "ArgMin"):
        axes = [attribute(node, "axis", 0) % rank]
    if axes is None or at in axes:
        raise BatchStuckError(f"{operator(node)} ({node.output[0]}) is over the batch axis")
    freed.put(node, node.output[0], at if attribute(node, "keepdims", 1) else at - sum(a < at for a in axes))


def _gather(freed: Freed, node: Any) -> None:
    data, index = node.input[:2]
    axis = attribute(node, "axis", 0) % max(len(freed.shape(data)), 1)
    inner = len(freed.shape(index))
    if data not in freed.at:
        freed.put(node, node.output[0], axis + freed.at[index])
    elif freed.at[data] == axis or index in freed.at:
        raise BatchStuckError(f"Gather ({node.output[0]}) chooses from the batch axis")
    else:
        freed.put(node, node.output[0], freed.at[data] + (inner - 1 if axis < freed.at[data] else 0))


def _concat(freed: Freed, node: Any) -> None:
    source = _source(freed, node)
    at = freed.at[source]
    if attribute(node, "axis", 0) % len(freed.shape(source)) == at:
        raise BatchStuckError(f"Concat ({node.output[0]}) is along the batch axis")
    for index, name in enumerate(node.input):
        if name not in freed.at:
            freed.spread(node, index, at, source)
    freed.put(node, node.output[0], at)


def _recurrent(freed: Freed, node: Any) -> None:
    """``steps x batch x features``: the states' batch is their second axis, the sequence's third in the output."""
    if attribute(node, "layout", 0) or freed.at.get(node.input[0]) != 1:
        raise BatchStuckError(f"{operator(node)} ({node.output[0]}) has its batch elsewhere than usual")
    for index, axis in ((4, 0), (5, 1), (6, 1)):
        if has_input(node, index) and node.input[index] not in freed.at:
            freed.spread(node, index, axis, node.input[0])
    for position, name in enumerate(node.output):
        if name:
            freed.put(node, name, 2 if position == 0 else 1)


def _resize(freed: Freed, node: Any) -> None:
    """``sizes`` that name the batch take it from the value as it comes."""
    at = freed.at[node.input[0]]
    if has_input(node, 3) and (sizes := freed.constant(node.input[3])) is not None and at == 0:
        first = freed.before(
            "Gather", [freed.size(node.input[0]), freed.new(np.array([0]), node.input[0])], node.name
        )
        rest = freed.new(sizes[1:].astype(np.int64), node.output[0])
        node.input[3] = freed.before("Concat", [first, rest], node.output[0], axis=0)
    _same_place(freed, node)


def _expand(freed: Freed, node: Any) -> None:
    """A size of 1 keeps what the value has there."""
    given, shape = freed.shape(node.input[0]), freed.shape(node.output[0])
    at = freed.at[node.input[0]] + len(shape) - len(given)
    sizes = freed.constant(node.input[1])
    if sizes is not None:
        place = at - len(shape) + len(sizes)
        if place >= 0:
            node.input[1] = freed.new(np.where(np.arange(len(sizes)) == place, 1, sizes), node.output[0])
    freed.put(node, node.output[0], at)


_ALIGNED = (
    "Add Sub Mul Div Pow Mod Min Max Mean Sum And Or Xor Equal Less LessOrEqual Greater GreaterOrEqual Where"
)
_BROADCAST = {"MatMul", "BitShift", "PRelu", *_ALIGNED.split()}
_KINDS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
_REDUCE = ["ArgMax", "ArgMin", *(f"Reduce{kind}" for kind in _KINDS.split())]
_STEPS: dict[str, Callable[[Freed, Any], None]] = {
    "Transpose": _transpose, "Reshape": _reshape, "Flatten": _reshape, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "Gather": _gather, "Concat": _concat, "LSTM": _recurrent, "GRU": _recurrent, "RNN": _recurrent, "Resize": _resize,
    "Expand": _expand, **dict.fromkeys(_REDUCE, _reduce),
}  # fmt: skip
