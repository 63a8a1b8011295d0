"""The same layer in two stacks."""

from __future__ import annotations

import pytest

from inferbench_tasks.analysis.stack import match as module
from inferbench_tasks.analysis.stack.match import match
from inferbench_tasks.errors import InputError
from tests.unit.analysis.stack.spans import Made, layer, profile


def groups(left: list[Made], right: list[Made]) -> list[tuple[str, str, str]]:
    """What is said of each group, with the names on both sides."""
    return [
        (group.what, "+".join(each.name for each in group.left), "+".join(each.name for each in group.right))
        for group in match(profile([left]).layers, profile([right]).layers)
    ]


def test_one_kind_has_several_names() -> None:
    """ONNX Runtime's Conv and Gemm are OpenVINO's Convolution and FullyConnected and PyTorch's _convolution, addmm."""
    left = [layer("c", "Conv", 1, (1, 8, 4, 4)), layer("g", "Gemm", 1, (1, 3))]
    right = [layer("x", "Convolution", 1, (-1, 8, 4, 4)), layer("y", "FullyConnected", 1)]
    assert groups(left, right) == [("same", "c", "x"), ("same", "g", "y")]
    torch = [layer("_convolution", "_convolution", 1), layer("addmm", "addmm", 1)]
    assert [what for what, *_ in groups(left, torch)] == ["same", "same"]


def test_what_is_computed_with_the_layer_before_is_fused() -> None:
    """Conv, BatchNormalization and Relu are one convolution on the other side; the next pair is not disturbed."""
    left = [
        layer("c1", "FusedConv", 1, (1, 8)),
        layer("c2", "FusedConv", 1, (1, 9)),
        layer("r2", "Relu", 1, (1, 9)),
    ]
    right = [
        layer("c1", "Conv", 1, (1, 8)), layer("b1", "BatchNormalization", 1, (1, 8)), layer("r1", "Relu", 1, (1, 8)),
        layer("c2", "Conv", 1, (1, 9)), layer("r2", "Relu", 1, (1, 9)),
    ]  # fmt: skip
    assert groups(left, right) == [
        ("fused left", "c1", "c1+b1+r1"),
        ("same", "c2", "c2"),
        ("same", "r2", "r2"),
    ]
    assert [what for what, *_ in groups(right, left)] == ["fused right", "same", "same"]


def test_parts_of_one_layer_stand_against_it() -> None:
    """LayerNormalization is one layer or nine between the same two; it is no part of the product before."""
    left = [
        layer("m", "MatMul", 1, (1, 8)),
        layer("n", "LayerNormalization", 1, (1, 8)),
        layer("s", "Softmax", 1),
    ]
    parts = [layer(f"p{at}", kind, 1, (1, 8)) for at, kind in enumerate(("ReduceMean", "Sub", "Div", "Add"))]
    right = [layer("m", "MatMul", 1, (1, 8)), *parts, layer("s", "Softmax", 1)]
    assert groups(left, right) == [("same", "m", "m"), ("fused left", "n", "p0+p1+p2+p3"), ("same", "s", "s")]


def test_another_shape_is_another_layer() -> None:
    """A convolution of twice the channels is not the same one, and an addition of another shape is not fused."""
    left = [layer("c", "Conv", 1, (1, 8))]
    right = [layer("d", "Conv", 1, (1, 16)), layer("a", "Add", 1, (1, 3))]
    assert groups(left, right) == [("only left", "c", ""), ("only right", "", "d"), ("only right", "", "a")]


def test_a_layer_of_the_same_name_may_have_another_shape() -> None:
    """It is the same one, and said to be of another shape: ONNX Runtime pads channels in its own layout."""
    left, right = [layer("a", "Add", 1, (1, 3, 4, 4))], [layer("a", "Add", 1, (1, 16, 4, 4))]
    assert groups(left, right) == [("other shape", "a", "a")]


def test_a_change_of_layout_at_another_place_is_the_same_one() -> None:
    """Before or behind the addition: where a runtime puts it is of no account."""
    reorder, add = layer("o", "ReorderOutput", 1, (1, 8)), layer("a", "Add", 1, (1, 8))
    left = [layer("c", "Conv", 1, (1, 8)), reorder, add]
    right = [layer("c", "Conv", 1, (1, 8)), add, reorder]
    assert sorted(groups(left, right)) == [("same", "a", "a"), ("same", "c", "c"), ("same", "o", "o")]


def test_a_layer_that_one_side_lacks_shifts_no_other() -> None:
    """Of three alike layers the one without a namesake is the one that is missing."""
    left = [layer(name, "Conv", 1, (1, 8)) for name in ("a", "b", "c")]
    right = [layer(name, "Conv", 1, (1, 8)) for name in ("a", "c")]
    assert groups(left, right) == [("same", "a", "a"), ("only left", "b", ""), ("same", "c", "c")]


def test_layouts_between_do_not_hide_what_was_fused() -> None:
    """A reorder on one side is its own; the activation on the other still goes to the convolution."""
    left = [layer("c", "Conv", 1, (1, 8)), layer("o", "ReorderOutput", 1, (1, 8)), layer("s", "Softmax", 1)]
    right = [layer("c", "Conv", 1, (1, 8)), layer("r", "Relu", 1, (1, 8)), layer("s", "Softmax", 1)]
    assert groups(left, right) == [("fused left", "c", "c+r"), ("only left", "o", ""), ("same", "s", "s")]


def test_too_many_layers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is the product of both numbers."""
    monkeypatch.setattr(module, "MOST_LAYERS", 2)
    layers = profile([[layer(str(at), "Conv", 1) for at in range(3)]]).layers
    with pytest.raises(InputError, match="3 layers are more than can be matched"):
        match(layers, layers)
