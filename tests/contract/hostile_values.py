"""Odd and hostile ONNX graphs by their types, operators and files, in the form of ``odd_graphs``."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tests.contract.odd_graphs import ANY, I64, Case, F, N, dense, graph, one, weights, x, y

BOOL, DOUBLE, I8, I4, F8 = (
    TensorProto.BOOL, TensorProto.DOUBLE, TensorProto.INT8, TensorProto.INT4, TensorProto.FLOAT8E4M3FN,
)  # fmt: skip


def four_bits(kind: int = I4) -> Any:
    """Weights of four bits (or eight, as a float), a scale for each column."""
    made = graph([N("DequantizeLinear", ["q", "scale"], ["w"], axis=1), N("MatMul", ["x", "w"], ["y"])], [x("n", 4)],
                 [y("n", 3)], 21, 10, scale=np.array([0.5, 1.0, 2.0], np.float32))  # fmt: skip
    made.graph.initializer.append(helper.make_tensor("q", kind, [4, 3], np.arange(-6, 6)))
    return made


def cast_from(kind: int) -> Any:
    return graph([N("Cast", ["x"], ["y"], to=F)], [x("n", 4, kind=kind)], [y("n", 4)], 21, 10)


def masked(batch: int | str) -> Any:
    inputs = [x(batch, 4), x(batch, 4, kind=BOOL, name="m")]
    return one("Where", inputs, [y(batch, 4)], names="m x low", low=np.array(-9, np.float32))


def blocks_of_four_bits() -> Any:
    """ONNX Runtime's own product with weights of four bits, as language models have it."""
    node = N("MatMulNBits", ["x", "q", "s"], ["y"], domain="com.microsoft", K=32, N=3, bits=4, block_size=32)
    q = np.random.default_rng(0).integers(0, 256, (3, 1, 16)).astype(np.uint8)
    return graph([node], [x("n", 32)], [y("n", 3)], domains=("com.microsoft",), q=q, s=weights(3))


def beyond() -> Any:
    """Infinities, and what is no number."""
    nodes = [
        N("Relu", ["x"], ["r"]),
        N("Log", ["r"], ["l"]),
        N("Sqrt", ["x"], ["s"]),
        N("Concat", ["l", "s"], ["y"], axis=1),
    ]
    return graph(nodes, [x("n", 4)], [y("n", 8)])


# Operators and what stands around them.


def drawn_inside() -> Any:
    """Random numbers, in a function of the file's own."""
    made = helper.make_function("mine", "Noisy", ["a"], ["c"], [N("RandomNormalLike", ["a"], ["b"]),
                                N("Add", ["a", "b"], ["c"])], [helper.make_opsetid("", 17)])  # fmt: skip
    return graph(
        [N("Noisy", ["x"], ["y"], domain="mine")],
        [x("n", 4)],
        [y("n", 4)],
        functions=[made],
        domains=("mine",),
    )


def dropped(mode: bool, opset: int = 17) -> Any:
    """A Dropout that was left in training, or not."""
    nodes = [N("Dropout", ["x", "ratio", "mode"], ["y"])]
    return graph(
        nodes, [x("n", 400)], [y("n", 400)], opset, ratio=np.array(0.5, np.float32), mode=np.array(mode)
    )


def functions_in_functions() -> Any:
    """A function with an attribute that calls another one of its own."""
    inner = helper.make_function("mine", "Scale", ["a"], ["b"], [
        N("Constant", [], ["f"]), N("Mul", ["a", "f"], ["b"])], [helper.make_opsetid("", 17)], ["by"])  # fmt: skip
    given = inner.node[0].attribute.add()
    given.name, given.ref_attr_name, given.type = "value_float", "by", helper.make_attribute("v", 1.0).type
    outer = helper.make_function("mine", "Both", ["a", "w"], ["c"], [
        N("Scale", ["a"], ["s"], domain="mine", by=3.0), N("MatMul", ["s", "w"], ["c"])],
        [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)])  # fmt: skip
    return graph([N("Both", ["x", "w"], ["y"], domain="mine")], [x(1, 4)], [y(1, 3)], functions=[inner, outer],
                 domains=("mine",), w=weights(4, 3))  # fmt: skip


def attention(batch: int | str) -> Any:
    """An operator of the newest opsets, as exporters write it now."""
    node = N("Attention", ["x", "x", "x"], ["y"])
    return graph([node], [x(batch, 2, 5, 4)], [y(batch, 2, 5, 4)], 23, 11)


def sparse() -> Any:
    made = dense("n")
    (tensor,) = made.graph.initializer
    array = numpy_helper.to_array(tensor)
    at = np.argwhere(array > 0)
    values = helper.make_tensor("w", F, [len(at)], array[tuple(at.T)])
    places = helper.make_tensor("w/at", I64, list(at.shape), at.flatten())
    del made.graph.initializer[:]
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [4, 3]))
    return made


def outside(location: str) -> Any:
    """Weights in another file."""
    made = dense("n")
    (tensor,) = made.graph.initializer
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return made


def upsampled() -> Any:
    """An operator that only old opsets have."""
    return one("Upsample", [x(1, 1, 2, 2)], [y(1, 1, 4, 4)], 9, _mode="nearest", names="x s",
               s=np.array([1, 1, 2, 2], np.float32))  # fmt: skip


VALUES: dict[str, Case] = {
    "weights of four bits": (four_bits, ANY),
    "weights of eight bits as floats": (lambda: four_bits(F8), ANY),
    "an input of four bits": (lambda: cast_from(I4), "the input x is of INT4 values.* cast"),
    "an input of eight bits as floats": (lambda: cast_from(F8), "the input x is of FLOAT8E4M3FN values"),
    "complex numbers": (lambda: cast_from(TensorProto.COMPLEX64), r"complex64.* export real and imaginary parts"),
    "a mask": (lambda: masked("n"), ANY),
    "a mask, fixed": (lambda: masked(4), ANY),
    "double": (lambda: one("Exp", [x(1, 4, kind=DOUBLE)], [y(1, 4, kind=DOUBLE)]), ANY),
    "int8": (lambda: one("Sign", [x(1, 4, kind=I8)], [y(1, 4, kind=I8)]), ANY),
    "blocks of four bits": (blocks_of_four_bits, ANY),
    "infinities and no numbers": (beyond, ANY),
    "random numbers in a function": (drawn_inside, r"draws random numbers \(RandomNormalLike\)"),
    "a Dropout in training": (
        lambda: dropped(True), r"draws random numbers \(Dropout in training\).*\(in evaluation mode\)"),
    "a Dropout": (lambda: dropped(False), ANY),
    "functions in functions": (functions_in_functions, ANY),
    "Attention of opset 23": (lambda: attention("n"), ANY),
    "Attention of opset 23, fixed": (lambda: attention(1), ANY),
    "sparse weights": (sparse, ANY),
    "weights outside its folder": (lambda: outside("../w.bin"), "external data of w: ../w.bin is not there, below"),
    "weights by a whole path": (lambda: outside("/etc/hostname"), "/etc/hostname leads out of"),
    "weights that are not there": (lambda: outside("w.bin"), "external data of w: w.bin is not there"),
    "opset 6": (lambda: dense("n", 6), ANY),
    "opset 1": (lambda: dense("n", 1), ANY),
    "Upsample of opset 9": (upsampled, ANY),
    "a batch of 0": (lambda: dense(0), "the input x has an axis of 0 values.* the real size"),
    "no features": (lambda: one("Relu", [x("n", 0)], [y("n", 0)]), "the input x has an axis of 0 values"),
    "nothing to compute": (lambda: graph([], [x("n", 4)], [x("n", 4)]), "its graph is empty; export"),
    "an unknown element type": (
        lambda: one("Relu", [x("n", 4, kind=0)], [y("n", 4, kind=0)]), "Invalid tensor data type 0"),
}  # fmt: skip
