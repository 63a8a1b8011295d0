"""What OpenVINO executes, as groups of a model's own layers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.bricks.runtimes.openvino import OpenVino
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


def test_an_input_that_goes_into_a_layer_without_work_is_fed_by_its_place(tmp_path: Path) -> None:
    """OpenVINO leaves a Dropout out and calls its input by the name of what it gives; of two each has its own array."""
    nodes = [
        helper.make_node("Dropout", ["x"], ["a"]),
        helper.make_node("Dropout", ["z"], ["d"]),
        helper.make_node("MatMul", ["a", "w"], ["m"]),
        helper.make_node("Sub", ["m", "d"], ["y"]),
    ]
    sizes = {"x": (TensorProto.FLOAT, ("n", 8)), "z": (TensorProto.FLOAT, ("n", 8))}
    path = save(tmp_path / "m.onnx", nodes, {"w": weight(8, 8)}, sizes)
    feeds = {"x": weight(2, 8, seed=1), "z": weight(2, 8, seed=2)}
    assert bricks(path, dict(feeds), tmp_path / "view") == ["Dropout > MatMul", "Dropout > Sub"]
    [answer] = OpenVino().open(path, feeds, threads=1, whole=True).answers(feeds)
    np.testing.assert_allclose(answer, feeds["x"] @ weight(8, 8) - feeds["z"], rtol=1e-4, atol=1e-5)


def test_feeds_that_do_not_come_out_even_are_refused(tmp_path: Path) -> None:
    """In words, not by an error of the program."""
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {}, {"x": (TensorProto.FLOAT, (3, 3))}
    )
    with pytest.raises(InputError, match="there is nothing for x"):
        OpenVino().executed(path, {})
