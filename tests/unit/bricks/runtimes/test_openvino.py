"""What OpenVINO executes, as groups of a model's own layers."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.errors import InputError
from tests.unit.bricks.graphs import image, residual, save, weight

pytest.importorskip("openvino")


def bricks(path: Path, feeds: dict[str, object], folder: Path) -> list[str]:
    graph = layer_graph(path, feeds, "runtime", folder, "openvino")  # type: ignore[arg-type]
    return [" > ".join(brick.operators) for brick in cut(graph, 1)]


def test_a_convolution_is_one_with_what_is_fused_into_it(tmp_path: Path) -> None:
    """Conv > Relu, and a Conv with the sum that it is added onto."""
    found = bricks(residual(tmp_path / "m.onnx"), dict(image()), tmp_path / "view")
    assert found == ["Conv", "Conv > Relu", "Conv > Add", "Conv > Relu", "Conv > Add"]


def test_what_only_sizes_decide_is_no_layer(tmp_path: Path) -> None:
    """A reshape by sizes that are computed is one by a constant; in place it costs nothing and is no brick."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "zero", "one"], ["head"]),
        helper.make_node("Concat", ["head", "rest"], ["sizes"], axis=0),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Reshape", ["m", "sizes"], ["r"]),
        helper.make_node("Softmax", ["r"], ["y"], axis=-1),
    ]
    import numpy as np

    constants = {
        "w": weight(8, 8), "zero": np.array([0]), "one": np.array([1]), "rest": np.array([2, 4]),
    }  # fmt: skip
    path = save(tmp_path / "m.onnx", nodes, constants, {"x": (TensorProto.FLOAT, ("n", 8))})
    found = bricks(path, {"x": weight(3, 8)}, tmp_path / "view")
    assert found == ["MatMul", "Reshape > Softmax"]


def test_a_model_that_it_can_t_load_is_refused_with_its_word(tmp_path: Path) -> None:
    """ONNX Runtime has operators that OpenVINO has not."""
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Det", ["a"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {}, {"x": (TensorProto.FLOAT, (3, 3))})
    with pytest.raises(InputError, match="OpenVINO can't load the model"):
        bricks(path, {"x": weight(3, 3)}, tmp_path / "view")
