"""What a file's weights are in, whatever it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.formats.stored_precision import most, onnx_precision


def model(*nodes: Any, **weights: Any) -> Any:
    """Nodes from ``x`` to ``y`` with these weights."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 32])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [
            value if isinstance(value, TensorProto) else numpy_helper.from_array(value, name)
            for name, value in weights.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def of(dtype: Any, *shape: int) -> Any:
    return np.zeros(shape or (32, 2), dtype)


def bfloat16() -> TensorProto:
    return helper.make_tensor("w", TensorProto.BFLOAT16, (32, 2), bytes(128), raw=True)


PRODUCT = helper.make_node("MatMul", ["x", "w"], ["y"])
QDQ = [
    helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"]),
    helper.make_node("MatMul", ["x", "f"], ["y"]),
]
ROUNDED = [
    helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]),
    helper.make_node("DequantizeLinear", ["q", "s", "z"], ["f"]),
    helper.make_node("MatMul", ["x", "f"], ["y"]),
]
SCALES = {"s": of(np.float32, 2), "z": of(np.int8, 2)}


@pytest.mark.parametrize(
    ("given", "precision"),
    [
        (model(PRODUCT, w=of(np.float32)), "fp32"),
        (model(PRODUCT, w=of(np.float64)), "fp32"),
        (model(PRODUCT, w=of(np.float16)), "fp16"),
        (model(PRODUCT, w=bfloat16()), "bf16"),
        (model(*QDQ, w=of(np.int8), **SCALES), "int8"),
        (model(*ROUNDED, w=of(np.float32), **SCALES), "int8"),  # as training for int8 leaves them
        (model(*QDQ, w=of(np.int8), b=of(np.float32, 32, 64), **SCALES), "fp32"),  # most of it is not
        (model(PRODUCT, w=of(np.float32), shape=of(np.int64, 500)), "fp32"),  # sizes are no weights
        (model(helper.make_node("Identity", ["x"], ["y"])), "fp32"),
    ],
)
def test_a_model_is_called_what_most_of_its_weights_are_in(given: Any, precision: str) -> None:
    """Also where the graph rounds them itself before it uses them."""
    assert onnx_precision(given) == precision


def test_weights_that_share_a_byte_count_as_what_they_are() -> None:
    """Of 4 bits there are two in each; constants of the graph are weights too, in the bodies of operators as well."""
    packed = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", bits=4, K=32, N=2
    )
    assert onnx_precision(model(packed, w=of(np.uint8, 2, 1, 16), s=of(np.float32, 100))) == "fp32"
    assert onnx_precision(model(packed, w=of(np.uint8, 2, 1, 16), s=of(np.float32, 40))) == "int4"
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(of(np.float16)))
    body = helper.make_graph([constant, PRODUCT], "b", [], [helper.make_tensor_value_info("y", 1, None)])
    either = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    assert onnx_precision(model(either, c=np.array(True))) == "fp16"


def test_without_weights_it_is_full() -> None:
    """Nothing was reduced."""
    assert most({}) == most({"int8": 0}) == "fp32"
