"""What an exported program's operators give, by made-up graphs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.servers.sources.torch_program import Operator, Program, nothing_known

sympy: Any = pytest.importorskip("sympy")


def free(expression: Any) -> Any:
    """A size that is not fixed, as PyTorch has it."""
    return SimpleNamespace(node=SimpleNamespace(expr=expression))


def tensor(*shape: Any, itemsize: int = 4) -> Any:
    """A value of the graph."""
    return SimpleNamespace(shape=shape, dtype=SimpleNamespace(itemsize=itemsize))


def node(op: str, name: str | None, value: Any, module: str = "") -> Any:
    """A node of the graph; only PyTorch's operators have a name."""
    target = SimpleNamespace(_opname=name) if name else "x"
    stack = {"k": (module, "type")} if module else {}
    return SimpleNamespace(op=op, target=target, meta={"val": value, "nn_module_stack": stack})


def test_bytes_are_those_of_the_inputs_of_a_call() -> None:
    """A free batch and a free length, of which the second input tells: sizes that are calculated of both, several
    values together, a fixed size, and what nobody can tell."""
    batch, length, unknown = sympy.symbols("s0 s1 u0")
    module = SimpleNamespace(
        graph=SimpleNamespace(
            nodes=[
                node("placeholder", None, tensor(free(batch), 3)),
                node("placeholder", None, tensor(free(batch), free(length), itemsize=8)),
                node("call_function", "linear", tensor(free(batch), 4), "fc1"),
                node("call_function", "cat", tensor(free(batch), free(2 * length + 1), itemsize=8)),
                node("call_function", None, tensor(1)),
                node("call_function", "split", [tensor(free(batch), 2), tensor(free(batch), 1, itemsize=1)]),
                node("call_function", "arange", tensor(7)),
                node("call_function", "nonzero", tensor(free(unknown), 2)),
                node("call_function", "item", 5),
                node("output", None, None),
            ]
        )
    )
    program = Program(module)
    assert program(((2, 3), (2, 5))) == [
        Operator("linear", "fc1", [-1, 4], 2 * 4 * 4),
        Operator("cat", "", [-1, -1], 2 * 11 * 8),
        Operator("split", "", None, 2 * 2 * 4 + 2),
        Operator("arange", "", [7], 28),
        Operator("nonzero", "", [-1, 2], None),
        Operator("item", "", None, None),
    ]
    assert program(((1, 3), (1, 5)))[0].output_bytes == 16
    assert program(())[0] == Operator("linear", "fc1", [-1, 4], None)
    assert not nothing_known(((1,),))
