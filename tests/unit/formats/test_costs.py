"""FLOPs and bytes against values computed by hand, one operator at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.formats.costs import graph_costs, quantised_ratio


def save(
    path: Path,
    nodes: Sequence[Any],
    shape: tuple[int, ...],
    weights: dict[str, tuple[int, ...]],
    opset: int = 17,
) -> tuple[TensorSpec, ...]:
    """A graph from x to y with random weights; returns its inputs' specs."""
    rng = np.random.default_rng(0)
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(model, path)
    return (TensorSpec(name="x", dtype="float32", shape=shape),)


CASES: dict[str, tuple[list[Any], tuple[int, ...], dict[str, tuple[int, ...]], int]] = {
    # out 8 x 6 x 6, each over 4 / 2 channels and 3 x 3
    "grouped Conv": (
        [helper.make_node("Conv", ["x", "w"], ["y"], group=2, kernel_shape=[3, 3])],
        (4, 8, 8),
        {"w": (8, 2, 3, 3)},
        8 * 6 * 6 * 2 * 9,
    ),
    # in 4 x 5 x 5, each spread over 6 channels and 2 x 2
    "ConvTranspose": (
        [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])],
        (4, 5, 5),
        {"w": (4, 6, 2, 2)},
        4 * 25 * 6 * 4,
    ),
    "MatMul": ([helper.make_node("MatMul", ["x", "w"], ["y"])], (7, 5), {"w": (5, 3)}, 7 * 5 * 3),
    "Gemm, transposed": (
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)],
        (5,),
        {"w": (3, 5), "b": (3,)},
        15,
    ),
    # x: batch 1 (as steps) x 6 x 5; two directions of 4 gates of 8 units
    "LSTM, both directions": (
        [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=8, direction="bidirectional")],
        (6, 5),
        {"w": (2, 32, 5), "r": (2, 32, 8)},
        1 * 6 * 2 * 4 * 8 * (5 + 8),
    ),
    "GRU": (
        [helper.make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=8)],
        (6, 5),
        {"w": (1, 24, 5), "r": (1, 24, 8)},
        1 * 6 * 3 * 8 * (5 + 8),
    ),
    "Einsum": (
        [helper.make_node("Einsum", ["x", "w"], ["y"], equation="bij,jk->bik")],
        (4, 5),
        {"w": (5, 6)},
        4 * 5 * 6,
    ),
    "element-wise only": ([helper.make_node("Relu", ["x"], ["y"])], (9,), {}, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_multiply_adds(tmp_path: Path, name: str) -> None:
    """A multiply-add is 2 FLOP; what is counted is what the operator's definition says."""
    nodes, shape, weights, macs = CASES[name]
    inputs = save(tmp_path / "m.onnx", nodes, shape, weights)
    costs = graph_costs(tmp_path / "m.onnx", inputs)
    assert costs.flops == 2 * macs
    assert costs.parameters == sum(int(np.prod(s)) for s in weights.values())


def test_bytes_are_what_operators_read_and_write(tmp_path: Path) -> None:
    """Unfused: MatMul reads 5 + 15 and writes 3 floats, Relu reads and writes 3; a Reshape moves nothing."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["y"]),
    ]
    inputs = save(tmp_path / "m.onnx", nodes, (5,), {"w": (5, 3)})
    assert graph_costs(tmp_path / "m.onnx", inputs).bytes == 4 * (5 + 15 + 3 + 3 + 3)


def test_fusion_saves_bytes(tmp_path: Path) -> None:
    """ONNX Runtime does Conv and Relu as one: what lies between is neither written nor read."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    inputs = save(tmp_path / "m.onnx", nodes, (3, 8, 8), {"w": (4, 3, 3, 3)})
    costs = graph_costs(tmp_path / "m.onnx", inputs)
    assert costs.fused_bytes is not None and costs.bytes is not None
    assert costs.fused_bytes == costs.bytes - 2 * 4 * (4 * 6 * 6)


def test_a_table_is_read_only_where_it_is_looked_up(tmp_path: Path) -> None:
    """An embedding of a million rows costs the rows that are asked for."""
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["w", "i"], ["y"]),
    ]
    inputs = save(tmp_path / "m.onnx", nodes, (2,), {"w": (1000, 8)})
    assert 0 < (graph_costs(tmp_path / "m.onnx", inputs).bytes or 0) < 1000


def test_arithmetic_in_a_body_is_refused(tmp_path: Path) -> None:
    """A loop may run any number of times: no figure is better than a wrong one. Parameters are known."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"]),
            helper.make_node("Identity", ["go"], ["more"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    steps = helper.make_node("Constant", [], ["n"], value=helper.make_tensor("n", TensorProto.INT64, [], [3]))
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)
    inputs = save(tmp_path / "m.onnx", [steps, loop], (4,), {"w": (4, 4)})
    costs = graph_costs(tmp_path / "m.onnx", inputs)
    assert (costs.flops, costs.bytes, costs.parameters) == (None, None, 16)
    assert costs.reason == "FLOPs of Loop (1) can't be counted; bytes of Loop (1) can't be counted"


def test_a_float_model_is_not_quantised(tmp_path: Path) -> None:
    """None of its arithmetic is in integers."""
    inputs = save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], (5,), {"w": (5, 3)})
    assert quantised_ratio(tmp_path / "m.onnx", inputs) == 0.0


@pytest.mark.parametrize(
    "values",
    [
        {"family": "mlp", "layers": 3, "input_size": 100, "neurons": 32},
        {"family": "cnn", "layers": 2, "image_size": 15, "channels": 8},
        {"family": "rnn", "layers": 2, "sequence_length": 8, "input_size": 12, "hidden_size": 16},
        {"family": "transformer", "layers": 2, "sequence_length": 8, "hidden_size": 16, "heads": 4},
    ],
    ids=lambda v: v["family"],
)
@pytest.mark.filterwarnings("ignore")  # the exporter warns within itself
def test_closed_forms_equal_the_graph(tmp_path: Path, values: dict[str, Any]) -> None:
    """Two independent counts of the canonical models agree to the last multiply-add."""
    pytest.importorskip("torch")
    from pydantic import TypeAdapter

    from inferbench_tasks.contracts.handles import ModelArtifact
    from inferbench_tasks.formats.onnx_torch import export
    from inferbench_tasks.modelrepo.canonical.base import family_module, size_of
    from inferbench_tasks.submission.model import CanonicalModel

    spec: Any = TypeAdapter(CanonicalModel).validate_python({"kind": "canonical", **values})
    given = TensorSpec(name="input", dtype="float32", shape=family_module(spec).input_shape(spec))
    model = ModelArtifact(
        name="m", framework="torch", format="torch", path="", digest="", inputs=(given,),
        outputs=(TensorSpec(name="scores", dtype="float32", shape=(10,)),),
    )  # fmt: skip
    export(family_module(spec).torch_module(spec).eval(), model, tmp_path / "m.onnx", 17)
    assert graph_costs(tmp_path / "m.onnx", (given,)).flops == 2 * size_of(spec).macs


def test_weights_beside_the_model_are_counted_without_being_copied(tmp_path: Path) -> None:
    """The runtime finds them in the model's folder, and three GB of them (a hole in a file) need no protobuf."""
    rows = 3_000_000_000 // (4 * 64)
    table = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[rows, 64], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", str(rows * 256))):
        entry = table.external_data.add()
        entry.key, entry.value = key, value
    graph = helper.make_graph(
        [helper.make_node("Gather", ["w", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4, 64])],
        [table],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
        tmp_path / "m.onnx",
    )
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(rows * 256)
    costs = graph_costs(tmp_path / "m.onnx", (TensorSpec(name="x", dtype="int64", shape=(4,)),))
    assert (costs.parameters, costs.flops, costs.fused_bytes) == (rows * 64, 0, None)
    assert 0 < (costs.bytes or 0) < 10_000
