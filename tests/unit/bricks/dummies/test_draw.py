"""Dummies: near the model, none of its bricks where widths changed, no weight of it, and they run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.dummies import draw_near
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from tests.unit.bricks.graphs import IMAGE, image, save, weight


def network(path: Path) -> Path:
    """Conv 3 > 16, depth-wise, point-wise 16 > 24, flattened, 24 x 64 > 10; a block around the depth-wise."""
    constants = {
        "w": weight(16, 3, 3, 3), "d": weight(16, 1, 3, 3), "p": weight(24, 16, 1, 1), "m": weight(24 * 64, 12),
        "s": np.array([1, 24 * 64]),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "d"], ["b"], pads=[1, 1, 1, 1], group=16),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Conv", ["c", "p"], ["e"]),
        helper.make_node("Reshape", ["e", "s"], ["f"]),
        helper.make_node("MatMul", ["f", "m"], ["y"]),
    ]
    return save(path, nodes, constants, IMAGE)


def keys(path: Path, feeds: Arrays, folder: Path) -> set[str]:
    return {brick.key for brick in cut(layer_graph(path, feeds, "portable", folder), 1)}


@pytest.mark.parametrize("seed", range(4))
def test_a_dummy_runs_and_has_nothing_of_the_model_s(tmp_path: Path, seed: int) -> None:
    """Its shapes go with one another (a depth-wise layer has as many groups as channels, a flattened one all of them),
    no number of a weight is the model's, and the same seed draws the same."""
    path = network(tmp_path / "m.onnx")
    drawn = draw_near(path, image(), seed, tmp_path / "d")
    assert not keys(path, image(), tmp_path / "k") & keys(drawn, image(), tmp_path / "l")
    own = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if t.data_type == 1}
    model = onnx.load(drawn)
    arrays = [numpy_helper.to_array(t) for t in model.graph.initializer]
    numbers = np.concatenate([a.reshape(-1) for a in arrays if a.dtype == np.float32])
    # Of so many numbers of 24 bits some are alike by chance.
    assert numbers.size > 1000 and all(np.isin(numbers, array).mean() < 1e-3 for array in own.values())
    again = draw_near(path, image(), seed, tmp_path / "again")
    assert keys(again, image(), tmp_path / "n") == keys(drawn, image(), tmp_path / "o")


def test_attention_keeps_its_heads(tmp_path: Path) -> None:
    """Four heads of 8 in 32: the size of a head takes up the new width, never the number of values of one token."""
    nodes = [
        helper.make_node("MatMul", ["x", "q"], ["a"]),
        helper.make_node("Reshape", ["a", "s"], ["b"]),
        helper.make_node("Transpose", ["b"], ["c"], perm=[0, 2, 1, 3]),
        helper.make_node("Softmax", ["c"], ["y"]),
    ]
    constants = {"q": weight(12, 32), "s": np.array([1, 6, 4, 8])}
    path = save(tmp_path / "m.onnx", nodes, constants, {"x": (TensorProto.FLOAT, (1, 6, 12))})
    for seed in range(3):
        drawn = onnx.load(draw_near(path, {"x": weight(1, 6, 12)}, seed, tmp_path / str(seed)))
        arrays = {t.name: numpy_helper.to_array(t) for t in drawn.graph.initializer}
        [width] = [a.shape[1] for a in arrays.values() if a.dtype == np.float32]
        reshape = next(node for node in drawn.graph.node if node.op_type == "Reshape")
        assert width != 32 and arrays[reshape.input[1]].tolist() == [1, 6, 4, width // 4]


def test_where_nothing_can_be_changed_there_is_no_dummy(tmp_path: Path) -> None:
    """A model without widths, kernels and blocks: an error, and no copy of it."""
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {}, IMAGE)
    with pytest.raises(InputError, match="no model could be drawn near it"):
        draw_near(path, image(), 0, tmp_path / "d")
