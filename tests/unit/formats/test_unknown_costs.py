"""What can't be counted is named and left out; weights are found wherever a graph keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.contracts.models import noise_like
from inferbench_tasks.formats.costs import graph_costs
from inferbench_tasks.formats.index_bounds import index_bounds

X = (TensorSpec(name="x", dtype="float32", shape=(4,)),)


def weights(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def model(nodes: list[Any], shape: tuple[int, ...] = (4,), opset: int = 17, **parts: Any) -> Any:
    domains = parts.pop("domains", ())
    functions = parts.pop("functions", [])
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", parts.pop("dtype", TensorProto.FLOAT), ["n", *shape])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in parts.pop("initializer", {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions)


def costs(folder: Path, made: Any, inputs: tuple[TensorSpec, ...] = X) -> Any:
    onnx.save(made, folder / "m.onnx")
    return graph_costs(folder / "m.onnx", inputs)


def test_a_function_of_the_models_own_is_counted_as_what_it_is_made_of(tmp_path: Path) -> None:
    """Two calls of a function with one matrix product: two products, and its constant is one parameter set."""
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weights(4, 4)))
    body = [constant, helper.make_node("MatMul", ["a", "w"], ["b"])]
    function = helper.make_function("mine", "Dense", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    calls = [
        helper.make_node("Dense", ["x"], ["h"], domain="mine"),
        helper.make_node("Dense", ["h"], ["y"], domain="mine"),
    ]
    got = costs(tmp_path, model(calls, domains=("mine",), functions=[function]))
    assert (got.flops, got.parameters, got.reason) == (2 * 2 * 16, 16, None)


def test_an_operator_that_is_not_known_leaves_flops_unknown(tmp_path: Path) -> None:
    """DeformConv multiplies and is in no table: null with its name and how many, never the rest's sum."""
    nodes = [
        helper.make_node("DeformConv", ["x", "w", "offset"], ["a"], kernel_shape=[1, 1]),
        helper.make_node("Conv", ["a", "w"], ["y"]),
    ]
    made = model(
        nodes,
        (2, 3, 3),
        19,
        initializer={"w": weights(2, 2, 1, 1), "offset": np.zeros((1, 2, 3, 3), np.float32)},
    )
    got = costs(tmp_path, made, (TensorSpec(name="x", dtype="float32", shape=(2, 3, 3)),))
    assert got.flops is None and got.reason == "FLOPs of DeformConv (1) can't be counted"
    assert got.parameters == 4 + 18


def test_onnx_runtimes_own_operators_are_known_by_their_domain(tmp_path: Path) -> None:
    """Its Attention multiplies by its weights first: 5 x (4 x 12), then 5 x 5 x (4 + 4); ONNX's has none."""
    nodes = [helper.make_node("Attention", ["x", "w", "b"], ["y"], domain="com.microsoft", num_heads=2)]
    made = model(
        nodes, (5, 4), domains=("com.microsoft",), initializer={"w": weights(4, 12), "b": weights(12)}
    )
    got = costs(tmp_path, made, (TensorSpec(name="x", dtype="float32", shape=(5, 4)),))
    assert got.flops == 2 * (5 * 4 * 12 + 5 * 5 * 8)


def test_a_transposed_fused_product_sums_over_the_right_axis(tmp_path: Path) -> None:
    """x is 6 x 4 and transposed: 4 x 6 by 6 x 3 are 4 x 3 x 6 multiply-adds."""
    nodes = [helper.make_node("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft", transA=1)]
    made = model(nodes, (6, 4), domains=("com.microsoft",), initializer={"w": weights(6, 3)})
    got = costs(tmp_path, made, (TensorSpec(name="x", dtype="float32", shape=(6, 4)),))
    assert got.flops == 2 * 4 * 3 * 6


def test_a_linear_model_multiplies_and_has_weights(tmp_path: Path) -> None:
    """Its coefficients lie in an attribute."""
    nodes = [
        helper.make_node(
            "LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml", coefficients=[1.0] * 4, intercepts=[2.0]
        )
    ]
    got = costs(tmp_path, model(nodes, domains=("ai.onnx.ml",)))
    assert (got.flops, got.parameters, got.bytes) == (8, 5, 4 * (4 + 4 + 1))


@pytest.mark.parametrize("form", ["value", "value_floats"])
def test_weights_in_constants_are_parameters(tmp_path: Path, form: str) -> None:
    """As exporters of some frameworks write them."""
    given = {"value": numpy_helper.from_array(weights(4))} if form == "value" else {"value_floats": [1.0] * 4}
    nodes = [helper.make_node("Constant", [], ["w"], **given), helper.make_node("Mul", ["x", "w"], ["y"])]
    assert costs(tmp_path, model(nodes)).parameters == 4


def test_a_branch_without_arithmetic_hides_none(tmp_path: Path) -> None:
    """An If of a Relu is 0 FLOP; what its branches move is not known, for only one of them runs."""
    out = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["o"])], "b", [], out)
    nodes = [helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)]
    got = costs(tmp_path, model(nodes, initializer={"yes": np.array(True)}))
    assert (got.flops, got.bytes, got.reason) == (0, None, "bytes of If (1) can't be counted")


def test_a_table_bounds_the_integers_that_choose_from_it() -> None:
    """Through a cast and a new axis too; noise then reaches its last rows, and bytes are all bytes."""
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Unsqueeze", ["i", "axis"], ["j"]),
        helper.make_node("Gather", ["table", "j"], ["y"]),
    ]
    made = model(
        nodes, dtype=TensorProto.INT32, initializer={"table": weights(30_000, 2), "axis": np.array([1])}
    )
    assert index_bounds(made) == {"x": 30_000}
    rng = np.random.default_rng(0)
    spec = TensorSpec(name="x", dtype="int32", shape=(64,), below=30_000)
    noise = noise_like(spec, 16, rng)
    assert noise.min() >= 0 and 29_000 < noise.max() < 30_000
    assert noise_like(TensorSpec(name="x", dtype="uint8", shape=(999,)), 9, rng).max() == 255


@pytest.mark.parametrize(
    ("kind", "inputs", "arrays", "below"),
    [
        ("Equal", ["x", "all"], {"all": np.arange(257, dtype=np.int32)}, 257),
        ("OneHot", ["x", "depth", "values"], {"depth": np.array(9), "values": np.array([0, 1])}, 9),
    ],
)
def test_classes_bound_the_integers_that_name_them(
    kind: str, inputs: list[str], arrays: dict[str, Any], below: int
) -> None:
    """One-hot vectors, by the operator or by comparing with all of the classes."""
    made = model([helper.make_node(kind, inputs, ["y"])], dtype=TensorProto.INT32, initializer=arrays)
    assert index_bounds(made) == {"x": below}
