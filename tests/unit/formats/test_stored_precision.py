"""What a file's weights are in, whatever it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.analysis.intensity import BYTES_PER_WEIGHT, intensity
from inferbench_tasks.formats.stored_precision import QUANTISED, UNKNOWN, most, onnx_precision
from inferbench_tasks.modelrepo.openvino_file import precision_of as openvino_precision


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
MASKED = [
    helper.make_node("Cast", ["t"], ["m"], to=TensorProto.FLOAT),
    helper.make_node("MatMul", ["x", "w"], ["p"]),
    helper.make_node("Add", ["p", "m"], ["y"]),
]
#: Weights less their zero point, by scales, without an operator for it.
SCALED = [
    helper.make_node("Cast", ["w"], ["c"], to=TensorProto.FLOAT),
    helper.make_node("Cast", ["z"], ["o"], to=TensorProto.FLOAT),
    helper.make_node("Sub", ["c", "o"], ["l"]),
    helper.make_node("Mul", ["l", "s"], ["f"]),
    helper.make_node("MatMul", ["x", "f"], ["y"]),
]
#: A table that is cast, and multiplied by what was computed.
TIMES = [
    helper.make_node("Cast", ["t"], ["m"], to=TensorProto.FLOAT),
    helper.make_node("MatMul", ["x", "w"], ["p"]),
    helper.make_node("Mul", ["p", "m"], ["y"]),
]
#: Weights as ONNX Runtime's quantiser leaves those of an embedding.
EMBEDDED = [
    helper.make_node("Gather", ["w", "i"], ["g"]),
    helper.make_node("DequantizeLinear", ["g", "s", "z"], ["y"]),
]
INTEGERS = [helper.make_node("MatMulInteger", ["x", "w"], ["y"])]
ATTENTION = [helper.make_node("QAttention", ["x", "w", "s"], ["y"], domain="com.microsoft", num_heads=1)]
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
        (model(*MASKED, w=of(np.float32), t=of(np.uint8, 500, 2)), "fp32"),  # nor are masks and tables
        (model(*TIMES, w=of(np.float32), t=of(np.uint8, 500, 2)), "fp32"),
        (model(*SCALED, w=of(np.int8), **SCALES), "int8"),
        (model(*EMBEDDED, w=of(np.int8), i=of(np.int64, 5), **SCALES), "int8"),
        (model(*INTEGERS, w=of(np.uint8)), "int8"),
        (model(*ATTENTION, w=of(np.int8), s=of(np.float32, 2)), "int8"),
        (model(helper.make_node("Identity", ["x"], ["y"])), "fp32"),
    ],
)
def test_a_model_is_called_what_most_of_its_weights_are_in(given: Any, precision: str) -> None:
    """Also where the graph rounds them itself before it uses them."""
    assert onnx_precision(given) == precision


ONE, LOW = of(np.float32, 1), of(np.float32, 1)


def added(*made: Any, add: Any = None, **constants: Any) -> Any:
    """Products by fp32 weights, to which is added what these nodes make of ``t``: fewer numbers are weights than are in
    the table."""
    end = add or helper.make_node("Add", ["p", "m"], ["y"])
    return model(
        PRODUCTS, *made, end, w=of(np.float32), t=of(np.uint8, 500, 2), one=ONE, low=LOW, **constants
    )


PRODUCTS = helper.make_node("MatMul", ["x", "w"], ["p"])
CAST = helper.make_node("Cast", ["t"], ["c"], to=TensorProto.FLOAT)
LESS_ONE = helper.make_node("Sub", ["c", "one"], ["l"])


@pytest.mark.parametrize(
    ("given", "precision"),
    [
        # (mask - 1) * 1e4, and mask * -1e4, as constants of the graph.
        (added(CAST, LESS_ONE, helper.make_node("Mul", ["l", "low"], ["m"])), "fp32"),
        (added(CAST, helper.make_node("Mul", ["c", "low"], ["m"])), "fp32"),
        # The part of it that is as long as the request, spread over its heads.
        (
            added(
                CAST, LESS_ONE, helper.make_node("Mul", ["l", "low"], ["a"]),
                helper.make_node("Slice", ["a", "start", "computed"], ["b"]),
                helper.make_node("Expand", ["b", "computed"], ["m"]), start=of(np.int64, 1),
            ),
            "fp32",
        ),
        # As an attention's mask.
        (
            added(
                CAST, LESS_ONE, helper.make_node("Mul", ["l", "low"], ["m"]),
                add=helper.make_node("Attention", ["p", "p", "p", "m"], ["y"]),
            ),
            "fp32",
        ),
        # Weights by the same arithmetic: what multiplies by them or looks up in them says so.
        (
            added(
                CAST, LESS_ONE, helper.make_node("Mul", ["l", "low"], ["m"]),
                add=helper.make_node("MatMul", ["p", "m"], ["y"]),
            ),
            "int8",
        ),
        (
            added(
                CAST, helper.make_node("Mul", ["c", "low"], ["m"]),
                add=helper.make_node("Gemm", ["p", "m"], ["y"]),
            ),
            "int8",
        ),
        (
            added(
                CAST, helper.make_node("Mul", ["c", "low"], ["e"]), helper.make_node("Gather", ["e", "ids"], ["m"])
            ),
            "int8",
        ),
        (
            added(
                CAST, helper.make_node("Mul", ["c", "low"], ["m"]), helper.make_node("Transpose", ["m"], ["n"]),
                helper.make_node("MatMul", ["x", "n"], ["z"]),
            ),
            "int8",
        ),
    ],
)  # fmt: skip
def test_a_mask_is_no_weight_however_it_is_made(given: Any, precision: str) -> None:
    """A table that is cast and scaled, less one or not, is weights unless it comes to nothing but additions."""
    assert onnx_precision(given) == precision


def _node(operator: str, inputs: str, output: str) -> Any:
    return helper.make_node(operator, inputs.split(), [output])


SCALED_MASK = [CAST, _node("Mul", "c low", "m")]


@pytest.mark.parametrize(
    ("tail", "precision"),
    [
        (["Add p m y"], "fp32"),
        (["Sub p m y"], "fp32"),
        (["Sub m p y"], "fp32"),
        (["Min p m y"], "fp32"),
        (["Max p m y"], "fp32"),
        (["Neg m n", "Add p n y"], "fp32"),
        (["Clip m one low n", "Add p n y"], "fp32"),
        (["Clip m one low n", "Min p n y"], "fp32"),
        (["Max m one n", "Add p n y"], "fp32"),
        (["Where chosen m one n", "Add p n y"], "fp32"),
        (["Add m one n", "Add p n y"], "fp32"),
        # Weights by the same arithmetic, less a zero point that is scaled by itself, or more by a constant.
        (["Mul one low o", "Sub m o n", "MatMul x n y"], "int8"),
        (["Add m one n", "MatMul x n y"], "int8"),
        (["Neg m n", "MatMul x n y"], "int8"),
        (["Clip m one low n", "MatMul x n y"], "int8"),
        (["Sub p m y", "MatMul x m z"], "int8"),
    ],
)  # fmt: skip
def test_a_mask_that_is_taken_away_or_bounds_is_no_weight(tail: list[str], precision: str) -> None:
    """4096 numbers of a mask beside fewer weights: negated, clipped or chosen by constants on its way."""
    nodes = []
    for line in tail:
        operator, *inputs, output = line.split()
        nodes.append(_node(operator, " ".join(inputs), output))
    given = model(
        PRODUCTS, *SCALED_MASK, *nodes, w=of(np.float32), t=of(np.uint8, 1, 1, 64, 64), one=ONE, low=LOW,
        chosen=of(np.bool_, 1),
    )  # fmt: skip
    assert onnx_precision(given) == precision


def test_openvinos_masks_are_none_either() -> None:
    """As ONNX's, of 4096 numbers beside 2048 weights."""
    openvino = pytest.importorskip("openvino")
    from openvino import opset13 as ops

    x = ops.parameter([64, 32], np.float32)
    product = ops.matmul(x, of(np.float32, 32, 64), False, False)

    def mask() -> Any:
        return ops.multiply(ops.convert(ops.constant(of(np.uint8, 64, 64)), "f32"), of(np.float32, 1))

    bounded = ops.clamp(mask(), -1.0, 1.0)
    less = ops.subtract(mask(), ops.multiply(of(np.float32, 1), of(np.float32, 1)))
    for result, precision in (
        (ops.add(product, mask()), "fp32"),
        (ops.subtract(product, mask()), "fp32"),
        (ops.minimum(product, mask()), "fp32"),
        (ops.maximum(product, mask()), "fp32"),
        (ops.add(product, ops.negative(mask())), "fp32"),
        (ops.add(product, bounded), "fp32"),
        (ops.minimum(product, bounded), "fp32"),
        (ops.add(product, ops.minimum(mask(), of(np.float32, 1))), "fp32"),
        (ops.add(product, ops.select(of(np.bool_, 1), mask(), of(np.float32, 1))), "fp32"),
        (ops.matmul(product, less, False, False), "int8"),
        (ops.matmul(product, ops.negative(mask()), False, False), "int8"),
        (ops.matmul(product, ops.add(mask(), of(np.float32, 1)), False, False), "int8"),
    ):
        assert openvino_precision(openvino.Model([result], [x])) == precision


def test_a_table_that_is_moved_twice_over_is_followed_once() -> None:
    """A stranger's graph whose ways double with each operator is read in no time."""
    doubled = [helper.make_node("Concat", [f"m{at}", f"m{at}"], [f"m{at + 1}"], axis=0) for at in range(200)]
    start = helper.make_node("Mul", ["c", "low"], ["m0"])
    assert (
        onnx_precision(added(CAST, start, *doubled, add=helper.make_node("Add", ["p", "m200"], ["y"])))
        == "fp32"
    )


def test_weights_that_share_a_byte_count_as_what_they_are() -> None:
    """Of 4 bits there are two in each; constants of the graph are weights too, in the bodies of operators as well."""
    packed = helper.make_node(
        "MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", bits=4, K=32, N=2
    )
    assert onnx_precision(model(packed, w=of(np.uint8, 2, 1, 16), s=of(np.float32, 100))) == "fp32"
    assert onnx_precision(model(packed, w=of(np.uint8, 2, 1, 16), s=of(np.float32, 40))) == "int4"
    table = helper.make_node(
        "GatherBlockQuantized", ["w", "i", "s"], ["y"], domain="com.microsoft", bits=4, block_size=16
    )
    assert (
        onnx_precision(model(table, w=of(np.uint8, 32, 16), i=of(np.int64, 5), s=of(np.float32, 32)))
        == "int4"
    )
    # A tensor of int4 has as many numbers as it says: twice 64 would be more than 100.
    small = helper.make_tensor("w", TensorProto.INT4, (32, 2), bytes(32), raw=True)
    assert onnx_precision(model(table, w=small, i=of(np.int64, 5), s=of(np.float32, 100))) == "fp32"
    two = helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], domain="com.microsoft", bits=2, K=32, N=2)
    assert onnx_precision(model(two, w=of(np.uint8, 2, 1, 8), s=of(np.float32, 2))) == "int2"
    normal = helper.make_node(
        "MatMulBnb4", ["x", "w", "s"], ["y"], domain="com.microsoft", quant_type=1, K=32, N=2
    )
    assert onnx_precision(model(normal, w=of(np.uint8, 32), s=of(np.float32, 2))) == "nf4"
    assert {"int4", "int2", "nf4"} <= set(QUANTISED) <= BYTES_PER_WEIGHT.keys()
    constant = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(of(np.float16)))
    body = helper.make_graph([constant, PRODUCT], "b", [], [helper.make_tensor_value_info("y", 1, None)])
    either = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    assert onnx_precision(model(either, c=np.array(True))) == "fp16"


def test_weights_that_a_function_of_the_file_takes_are_its_weights() -> None:
    """There they have the names of the function's inputs."""
    imports = [helper.make_opsetid("", 17)]
    function = helper.make_function("own", "Product", ["a", "b", "c", "d"], ["e"], [
        helper.make_node("DequantizeLinear", ["b", "c", "d"], ["f"]), helper.make_node("MatMul", ["a", "f"], ["e"]),
    ], imports)  # fmt: skip
    called = model(
        helper.make_node("Product", ["x", "w", "s", "z"], ["y"], domain="own"), w=of(np.int8), **SCALES
    )
    called.functions.append(function)
    called.opset_import.append(helper.make_opsetid("own", 1))
    assert onnx_precision(called) == "int8"


def test_openvinos_tables_are_no_weights() -> None:
    """Whole numbers that are converted and scaled are weights, less a zero point or not; a table is what it
    says, also one that is scaled and added."""
    openvino = pytest.importorskip("openvino")
    from openvino import opset13 as ops

    x = ops.parameter([2, 32], np.float32)
    table = ops.constant(of(np.uint8, 32, 32))
    scaled = ops.multiply(ops.convert(ops.constant(of(np.int8, 32, 32)), "f32"), of(np.float32, 32, 1))
    less = ops.subtract(ops.convert(table, "f32"), ops.convert(ops.constant(of(np.uint8, 32, 1)), "f32"))
    product = ops.matmul(x, of(np.float32, 32, 2), False, False)
    masked = ops.multiply(ops.convert(ops.constant(of(np.uint8, 500, 2, 2)), "f32"), product)

    def scaled_table() -> Any:
        less = ops.subtract(ops.convert(ops.constant(of(np.uint8, 500, 2)), "f32"), of(np.float32, 1))
        return ops.multiply(less, of(np.float32, 1))

    part = ops.slice(scaled_table(), np.array([0]), np.array([2]), np.array([1]), np.array([0]))
    index = ops.convert(ops.reduce_max(x, np.array([1]), False), "i32")
    looked_up = ops.gather(scaled_table(), index, np.int64(0))
    for result, precision in (
        (ops.add(part, product), "fp32"),
        (ops.matmul(product, scaled_table(), False, True), "int8"),
        (ops.add(looked_up, product), "int8"),
        (ops.matmul(x, scaled, False, False), "int8"),
        (ops.matmul(x, ops.multiply(less, of(np.float32, 32, 1)), False, False), "int8"),
        (masked, "fp32"),
        (ops.matmul(x, ops.convert(ops.constant(of(np.float16, 32, 2)), "f32"), False, False), "fp16"),
    ):
        assert openvino_precision(openvino.Model([result], [x])) == precision


def test_without_weights_it_is_full() -> None:
    """Nothing was reduced."""
    assert most({}) == most({"int8": 0}) == "fp32"


def test_of_unknown_weights_no_bytes_are_made_up() -> None:
    """FLOP/byte needs to know what a weight takes: of 10 weights in 80 moved bytes, 2 FLOP by byte at fp32."""
    assert intensity(160, 80, 10, "fp32", 1) == 2.0
    assert intensity(160, 80, 10, UNKNOWN, 1) is None
