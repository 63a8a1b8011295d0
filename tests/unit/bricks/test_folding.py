"""What fixed sizes make constant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.bricks.folding import fold
from inferbench_tasks.bricks.layer import ordered_layers
from inferbench_tasks.formats.exposed import run_exposed
from tests.unit.bricks.graphs import save, weight

X = {"x": (TensorProto.FLOAT, (2, 3))}


def left(
    folder: Path, nodes: list[Any], constants: dict[str, Any], outputs: tuple[str, ...] = ("y",)
) -> list[str]:
    """The operators that are left, in order; the model answers as before."""
    path = save(folder / "m.onnx", nodes, constants, X, outputs)
    model = ir.load(path)
    feeds = {"x": np.abs(weight(2, 3))}
    values = run_exposed(ir.to_proto(model), feeds, folder)
    fold(model, ordered_layers(model.graph), values)
    again = run_exposed(ir.to_proto(model), feeds, folder)
    for name in outputs:
        assert np.array_equal(values[name], again[name])
    return [layer.operator for layer in ordered_layers(model.graph)]


def test_sizes_and_what_is_made_of_them_are_constants(tmp_path: Path) -> None:
    """Shape > Slice > Concat of a reshape's sizes are computed before anything runs."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Shape", ["r"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["head"]),
        helper.make_node("Concat", ["head", "rest"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["r", "sizes"], ["y"]),
    ]
    constants = {"zero": np.array([0]), "one": np.array([1]), "rest": np.array([3, 1])}
    assert left(tmp_path, nodes, constants) == ["Relu", "Reshape"]


@pytest.mark.parametrize("shaped", ["Shape", "Size"])
def test_sizes_that_values_decide_stay_layers(shaped: str, tmp_path: Path) -> None:
    """Of NonZero nobody knows how many it gives before it ran."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["n"]),
        helper.make_node(shaped, ["n"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ]
    assert left(tmp_path, nodes, {}) == ["NonZero", shaped, "Cast"]


def test_what_takes_no_value_is_constant_but_an_answer_stays(tmp_path: Path) -> None:
    """A sum of constants is one; a model that answers its sizes answers them by a layer."""
    nodes = [
        helper.make_node("Add", ["one", "one"], ["two"]),
        helper.make_node("Mul", ["x", "two"], ["m"]),
        helper.make_node("Shape", ["m"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ]
    assert left(tmp_path, nodes, {"one": np.ones(1, np.float32)}) == ["Cast"]
    nodes[-2:] = [helper.make_node("Neg", ["m"], ["y"])]
    assert left(tmp_path, nodes, {"one": np.ones(1, np.float32)}) == ["Mul", "Neg"]
