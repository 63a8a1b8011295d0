"""Which layers are executed as one: groups of what executed layers name, whatever they name."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferbench_tasks.bricks.fusion import fused
from inferbench_tasks.bricks.layer import Layer, ordered_layers


def layers_of(sources: Sequence[Sequence[int]]) -> tuple[Layer, ...]:
    """Layers ``0``, ``1`` ...: each takes what these before it give, -1: the model's input. All are needed."""
    given = [ir.Value(name="x")]
    nodes = []
    for index, before in enumerate(sources):
        node = ir.Node("", "Op", [given[at + 1] for at in before], name=str(index))
        node.outputs[0].name = f"v{index}"
        given.append(node.outputs[0])
        nodes.append(node)
    takers = {at for before in sources for at in before}
    ends = [given[index + 1] for index in range(len(sources)) if index not in takers]
    return ordered_layers(ir.Graph([given[0]], ends, nodes=nodes, opset_imports={"": 17}, name="g"))


def groups(sources: Sequence[Sequence[int]], *executed: str) -> list[str]:
    """The groups, as names; an executed layer is written by the names that it has."""
    layers = layers_of(sources)
    found = fused(layers, [names.split() for names in executed])
    return [" ".join(layers[index].node.name or "" for index in group) for group in found]


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[int]], list[list[str]]]:
    count = draw(st.integers(1, 25))
    sources = [
        draw(st.lists(st.integers(-1, index - 1), min_size=1, max_size=3, unique=True))
        for index in range(count)
    ]
    names = st.lists(st.integers(0, count).map(str), max_size=5)  # one of them is no layer's
    return sources, draw(st.lists(names, max_size=12))


@given(cases())
def test_every_layer_is_in_one_group_and_groups_follow_what_they_take(
    case: tuple[list[list[int]], list[list[str]]],
) -> None:
    """Whatever the graph and whatever a runtime says: none left out, none twice, and none is needed before it ran."""
    sources, executed = case
    layers = layers_of(sources)
    found = fused(layers, executed)
    assert sorted(index for group in found for index in group) == list(range(len(layers)))
    ran: set[int] = set()
    for group in found:
        for index in group:
            assert set(layers[index].needs.layers) - {-1} <= ran
            ran.add(index)


CHAIN = [[-1], [0], [1], [2]]


@pytest.mark.parametrize(
    ("sources", "executed", "said"),
    [
        (CHAIN, ["0 1", "2 3"], ["0 1", "2 3"]),
        (CHAIN, ["1", "3"], ["0 1", "2 3"]),
        (CHAIN, ["1", "gone"], ["0 1 2 3"]),
        (CHAIN, ["0", "1", "1", "3"], ["0", "1", "2 3"]),
        (CHAIN, ["0 1", "1 2"], ["0 1", "2 3"]),
        (CHAIN, [], ["0", "1", "2", "3"]),
        ([[-1], [0], [0], [1, 2]], ["0", "1", "2", "3"], ["0", "1", "2", "3"]),
        ([[-1], [0], [1], [1]], ["0", "2", "3"], ["0 1", "2", "3"]),
        ([[-1], [0], [1], [0, 2]], ["0 3", "1", "2"], ["0", "1", "2", "3"]),
        ([[-1], [0], [1], [0, 2]], ["0 1 3", "2"], ["0 1", "2", "3"]),
        ([[-1], [-1], [0], [1]], ["0 3", "1", "2"], ["0", "2", "1", "3"]),
        ([[-1], [-1], [0], [1]], ["0 1", "2", "3"], ["0 1", "2", "3"]),
    ],
    ids=[
        "named", "swallowed by what takes it", "and by what gives it", "executed as two", "named by two",
        "nothing is said", "a diamond", "taken by two", "a way around", "a way around a part", "nothing in common",
        "a common input",
    ],
)  # fmt: skip
def test_groups_are_what_is_executed_as_one(
    sources: list[list[int]], executed: list[str], said: list[str]
) -> None:
    """By names first, then by tensors; one that could not run by itself falls apart."""
    assert groups(sources, *executed) == said


def test_two_that_wait_for_each_other_are_taken_apart() -> None:
    """0 > 1 and 2 > 3 as 0 3 and 2 1: neither could run first."""
    crossed = groups([[-1], [0], [-1], [2], [1, 3]], "0 3", "2 1", "4")
    assert sorted(crossed) == ["0", "1", "2", "3", "4"]
