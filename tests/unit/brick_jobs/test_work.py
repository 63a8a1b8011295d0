"""How much work a brick is, counted by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from inferbench_tasks.brick_jobs.work import work_of
from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.contracts.arrays import Array
from tests.unit.bricks.graphs import save, weight


def flops_of(
    folder: Path,
    node: Any,
    shape: Sequence[int],
    constants: Mapping[str, Array],
    outputs: Sequence[str] = ("y",),
) -> float:
    """Of a model of one layer that takes ``x``."""
    path = save(folder / "one.onnx", [node], constants, {"x": (TensorProto.FLOAT, shape)}, outputs)
    (folder / "scratch").mkdir()
    graph = layer_graph(path, {"x": weight(*shape, seed=1)}, "source", folder / "scratch")
    [brick] = cut(graph, None)
    return work_of(graph, brick)[0]


@pytest.mark.parametrize(
    ("node", "shape", "constants", "flops"),
    [
        # 16 x 8 x 8 outputs of 3 x 3 x 3 products each; a bias makes no difference to which operand has the weights.
        (
            helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1]),
            (1, 3, 8, 8),
            {"w": weight(16, 3, 3, 3), "b": weight(16)},
            1024 + 2 * 1024 * 27,
        ),
        # 64 x 8 x 8 inputs, each spread over 32 channels of 2 x 2: 524,288 multiply-adds, and 32 x 16 x 16 outputs.
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2]),
            (1, 64, 8, 8),
            {"w": weight(64, 32, 2, 2)},
            8192 + 2 * 4096 * 128,
        ),
        # In groups: 4 x 3 x 3 inputs, each spread over 2 channels of 2 x 2, and 4 x 4 x 4 outputs.
        (
            helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=2),
            (1, 4, 3, 3),
            {"w": weight(4, 2, 2, 2)},
            64 + 2 * 36 * 8,
        ),
        # 5 x 7 outputs of 64 products each, whichever operand is the constant.
        (helper.make_node("MatMul", ["x", "w"], ["y"]), (5, 64), {"w": weight(64, 7)}, 35 + 2 * 35 * 64),
        (helper.make_node("MatMul", ["w", "x"], ["y"]), (64, 7), {"w": weight(5, 64)}, 35 + 2 * 35 * 64),
        # The first operand turned around: its products go along its first axis.
        (
            helper.make_node("Gemm", ["x", "w"], ["y"], transA=1),
            (64, 5),
            {"w": weight(64, 7)},
            35 + 2 * 35 * 64,
        ),
        (helper.make_node("Relu", ["x"], ["y"]), (5, 7), {}, 35),
    ],
    ids=["conv", "transposed", "transposed-groups", "product", "constant-first", "turned", "relu"],
)
def test_work_is_two_for_each_multiply_add_and_one_for_each_output(
    tmp_path: Path, node: Any, shape: Sequence[int], constants: Mapping[str, Array], flops: float
) -> None:
    """By hand, beside each layer."""
    assert flops_of(tmp_path, node, shape, constants) == flops
