"""The operators of an exported program in the order in which they run: their modules, shapes, and what they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

#: The shapes of a call's inputs, in their order.
Shapes = tuple[tuple[int, ...], ...]


class Operator(NamedTuple):
    """``shape``: of what it gives, -1 where it is free; ``output_bytes``: of all that it gives in one call. None where
    not known."""

    name: str
    module: str
    shape: list[int] | None = None
    output_bytes: int | None = None


#: The operators of a call with inputs of these shapes.
Operators = Callable[[Shapes], Sequence[Operator]]


def nothing_known(shapes: Shapes) -> Sequence[Operator]:
    """Of a module that is no exported program."""
    return ()


class Program:
    """``module``: an exported program's, whose graph tells of each value its type and sizes, free ones as symbols."""

    def __init__(self, module: Any) -> None:
        #: Where in the inputs each free size stands: symbol -> (input, axis).
        self._free: dict[Any, tuple[int, int]] = {}
        #: Of each operator also the values that it gives.
        self._operators: list[tuple[Operator, Sequence[Any]]] = []
        self._known: dict[Shapes, Sequence[Operator]] = {}
        inputs = 0
        for node in module.graph.nodes:
            value = node.meta.get("val")
            if node.op == "placeholder":
                for axis, size in enumerate(getattr(value, "shape", ())):
                    if not isinstance(size, int):
                        self._free.setdefault(size.node.expr, (inputs, axis))
                inputs += 1
            operator = getattr(node.target, "_opname", None)
            if node.op != "call_function" or operator is None:  # not of PyTorch: an item of a tuple, a size
                continue
            stack = list((node.meta.get("nn_module_stack") or {}).values())
            shape = getattr(value, "shape", None)
            sizes = None if shape is None else [size if isinstance(size, int) else -1 for size in shape]
            given = value if isinstance(value, list | tuple) else (value,)
            self._operators.append((Operator(operator, str(stack[-1][0]) if stack else "", sizes), given))

    def __call__(self, shapes: Shapes) -> Sequence[Operator]:
        """With the bytes that they give for such inputs."""
        if shapes not in self._known:
            sizes = {
                symbol: shapes[at][axis]
                for symbol, (at, axis) in self._free.items()
                if at < len(shapes) and axis < len(shapes[at])
            }
            self._known[shapes] = [
                operator._replace(output_bytes=_bytes(given, sizes)) for operator, given in self._operators
            ]
        return self._known[shapes]


def _bytes(values: Sequence[Any], sizes: Mapping[Any, int]) -> int | None:
    """Of all of them together; None where one is no tensor, or has a size that no input's tells."""
    whole = 0
    for value in values:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if shape is None or dtype is None:
            return None
        known = [size if isinstance(size, int) else _size(size.node.expr, sizes) for size in shape]
        if None in known:
            return None
        whole += prod(each for each in known if each is not None) * int(dtype.itemsize)
    return whole


def _size(expression: Any, sizes: Mapping[Any, int]) -> int | None:
    """A size that is calculated from free ones; None where one of these is not known."""
    value = expression.subs(sizes)
    return int(value) if value.is_Integer else None
