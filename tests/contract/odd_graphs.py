"""Odd and hostile ONNX graphs, by name: what they are, and what becomes of them as a file of the user's.

Each builder gives an ``onnx.ModelProto``; the second entry is "free" (any batch), a number (so many samples in each
call), or what the refusal says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.defs import onnx_opset_version

F, I64, I32, U8, F16, BF16, TEXT = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.UINT8, TensorProto.FLOAT16,
    TensorProto.BFLOAT16, TensorProto.STRING,
)  # fmt: skip
N = helper.make_node
Info = tuple[str, int, Sequence[int | str] | None]
Case = tuple[Callable[[], Any], int | str]


def weights(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def graph(
    nodes: list[Any], inputs: list[Info], outputs: list[Info], opset: int = 17, ir: int = 9, **arrays: Any
) -> Any:
    """A model of these nodes; further arguments are its weights."""
    functions, domains = arrays.pop("functions", []), arrays.pop("domains", ())
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(*given) for given in inputs],
        [helper.make_tensor_value_info(*given) for given in outputs],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(made, opset_imports=imports, ir_version=ir, functions=functions)


def x(*shape: int | str, kind: int = F, name: str = "x") -> Info:
    return (name, kind, list(shape))


def y(*shape: int | str, kind: int = F, name: str = "y") -> Info:
    return (name, kind, list(shape) or None)


def dense(batch: int | str, opset: int = 17) -> Any:
    return graph([N("MatMul", ["x", "w"], ["y"])], [x(batch, 4)], [y(batch, 3)], opset, 8, w=weights(4, 3))


def decibels(batch: int | str) -> Any:
    """Levels, none of them more than 80 dB below the loudest of all samples."""
    nodes = [
        N("Mul", ["x", "x"], ["p"]), N("Max", ["p", "least"], ["q"]), N("Log", ["q"], ["l"]),
        N("ReduceMax", ["l"], ["m"], keepdims=0), N("Sub", ["m", "range"], ["floor"]), N("Max", ["l", "floor"], ["y"]),
    ]  # fmt: skip
    least, most = np.array(1e-10, np.float32), np.array(18.4, np.float32)
    return graph(nodes, [x(batch, 4)], [y(batch, 4)], least=least, range=most)


def reshaped(batch: int, shape: list[int], wanted: list[int]) -> Any:
    """A Reshape to a constant, then something that would notice mixed rows."""
    nodes = [N("Reshape", ["x", "s"], ["h"]), N("Softmax", ["h"], ["z"], axis=-1), N("Flatten", ["z"], ["y"])]
    return graph(nodes, [x(batch, *shape)], [y()], s=np.array(wanted))


def transposed(batch: int) -> Any:
    """Steps first, merged with the batch, and taken apart again."""
    nodes = [
        N("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        N("Reshape", ["t", "flat"], ["r"]),
        N("MatMul", ["r", "w"], ["m"]),
        N("Reshape", ["m", "back"], ["b"]),
        N("ReduceMean", ["b"], ["y"], axes=[0], keepdims=0),
    ]
    arrays = {"flat": np.array([5 * batch, 4]), "back": np.array([5, batch, 3]), "w": weights(4, 3)}
    return graph(nodes, [x(batch, 5, 4)], [y(batch, 3)], **arrays)


def recurrent(kind: str, gates: int, batch: int, zeros: bool) -> Any:
    state = np.zeros((1, batch, 6), np.float32) if zeros else np.repeat(weights(1, 1, 6), batch, axis=1)
    nodes = [
        N("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        N(kind, ["t", "w", "r", "", "", "h0"], ["all", "last"], hidden_size=6),
        N("Squeeze", ["last", "zero"], ["y"]),
    ]
    arrays = {
        "w": weights(1, gates * 6, 4),
        "r": weights(1, gates * 6, 6),
        "h0": state,
        "zero": np.array([0]),
    }
    return graph(nodes, [x(batch, 5, 4)], [y(batch, 6)], **arrays)


def with_token(batch: int) -> Any:
    """A vision transformer's class token: a constant before each sample's own."""
    nodes = [N("Concat", ["token", "x"], ["c"], axis=1), N("Add", ["c", "positions"], ["y"])]
    token = np.repeat(weights(1, 1, 4), batch, axis=0)
    return graph(nodes, [x(batch, 3, 4)], [y(batch, 4, 4)], token=token, positions=weights(1, 4, 4, seed=1))


def resized(batch: int) -> Any:
    nodes = [N("Resize", ["x", "", "", "sizes"], ["y"], mode="nearest")]
    return graph(nodes, [x(batch, 2, 4, 4)], [y(batch, 2, 8, 8)], sizes=np.array([batch, 2, 8, 8]))


def squeezed(batch: int | str, opset: int = 17) -> Any:
    return graph(
        [N("MatMul", ["x", "w"], ["m"]), N("Squeeze", ["m"], ["y"])],
        [x(batch, 1, 4)],
        [y()],
        opset,
        8,
        w=weights(4, 3),
    )


def branch(factor: float) -> Any:
    nodes = [
        N("Constant", [], ["f"], value=numpy_helper.from_array(np.array(factor, np.float32))),
        N("Mul", ["x", "f"], ["o"]),
    ]
    return helper.make_graph(nodes, "b", [], [helper.make_tensor_value_info("o", F, None)])


def chosen(batch: int | str) -> Any:
    nodes = [N("If", ["yes"], ["y"], then_branch=branch(2), else_branch=branch(3))]
    return graph(nodes, [x(batch, 4)], [y(batch, 4)], yes=np.array(True))


def looped(batch: int | str) -> Any:
    body = helper.make_graph(
        [N("Identity", ["go"], ["more"]), N("MatMul", ["state", "w"], ["next"])],
        "body",
        [
            helper.make_tensor_value_info("i", I64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", F, None),
        ],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", F, None),
        ],
    )
    return graph(
        [N("Loop", ["n", "", "x"], ["y"], body=body)],
        [x(batch, 4)],
        [y(batch, 4)],
        n=np.array(3),
        w=weights(4, 4),
    )


def function(batch: int | str) -> Any:
    body = [N("MatMul", ["a", "b"], ["c"]), N("Relu", ["c"], ["d"])]
    made = helper.make_function("mine", "Dense", ["a", "b"], ["d"], body, [helper.make_opsetid("", 17)])
    node = N("Dense", ["x", "w"], ["y"], domain="mine")
    return graph([node], [x(batch, 4)], [y(batch, 3)], functions=[made], domains=("mine",), w=weights(4, 3))


def listed_weights() -> Any:
    made = dense(1)
    made.graph.input.append(helper.make_tensor_value_info("w", F, [4, 3]))
    return made


def old_listed_weights() -> Any:
    made = listed_weights()
    made.ir_version = 3
    return made


def zip_map() -> Any:
    nodes = [
        N("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", coefficients=weights(12).tolist(),
          intercepts=[0.0] * 3, classlabels_ints=[0, 1, 2], post_transform="SOFTMAX"),
        N("ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=[0, 1, 2]),
    ]  # fmt: skip
    made = graph(nodes, [x("n", 4)], [y("n", kind=I64, name="label")], domains=("ai.onnx.ml",))
    made.graph.output.append(helper.make_value_info("probabilities", helper.make_sequence_type_proto(
        helper.make_map_type_proto(I64, helper.make_tensor_type_proto(F, [])))))  # fmt: skip
    return made


def trees() -> Any:
    node = N(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2], nodes_featureids=[1, 0, 0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[0.5, 0.0, 0.0], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[-1.0, 2.0],
    )  # fmt: skip
    return graph([node], [x(1, 4)], [y(1, 1)], domains=("ai.onnx.ml",))


def sequence_input() -> Any:
    made = graph([N("ConcatFromSequence", ["x"], ["y"], axis=0)], [], [y("n", 4)])
    made.graph.input.append(helper.make_tensor_sequence_value_info("x", F, ["n", 4]))
    return made


def optional_input() -> Any:
    made = graph([N("OptionalGetElement", ["x"], ["y"])], [], [y("n", 4)])
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(F, ["n", 4]))
    made.graph.input.append(helper.make_value_info("x", kind))
    return made


def sequence_output() -> Any:
    made = graph([N("SplitToSequence", ["x"], ["y"], axis=1)], [x("n", 4)], [])
    made.graph.output.append(helper.make_tensor_sequence_value_info("y", F, ["n", 1]))
    return made


def looked_up(*shape: int | str, given: bool = False) -> Any:
    """A number for each text that is in the table, and -1 for others; ``given``: a text for each number."""
    texts, numbers = ["a", "b", "cat", "yes"], [1, 2, 3, 4]
    table: dict[str, Any]
    if given:
        table = {"keys_int64s": numbers, "values_strings": texts, "default_string": "none of these"}
    else:
        table = {"keys_strings": texts, "values_floats": [float(n) for n in numbers], "default_float": -1.0}
    made = graph(
        [N("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **table)],
        [x(*shape, kind=I64 if given else TEXT)],
        [y(*shape, kind=TEXT if given else F)],
    )
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    return made


def without_own_operators() -> Any:
    """A text for a number, in a file that imports no operators but those of ``ai.onnx.ml``."""
    made = looked_up(given=True)
    del made.opset_import[0]
    assert [each.domain for each in made.opset_import] == ["ai.onnx.ml"]
    return made


def one(
    kind: str, inputs: list[Info], outputs: list[Info], opset: int = 17, names: str = "x", **parts: Any
) -> Any:
    """A single operator; attributes go with a leading underscore."""
    attributes = {name[1:]: value for name, value in parts.items() if name.startswith("_")}
    arrays = {name: value for name, value in parts.items() if not name.startswith("_")}
    return graph([N(kind, names.split(), [outputs[0][0]], **attributes)], inputs, outputs, opset, **arrays)


ANY = "free"
CASES: dict[str, Case] = {
    "free already": (lambda: dense("n"), ANY),
    "a batch of 1": (lambda: dense(1), ANY),
    "a batch of 4": (lambda: dense(4), ANY),
    "opset 7": (lambda: dense(1, 7), ANY),
    "opset 11": (lambda: dense(1, 11), ANY),
    "opset 21": (lambda: dense(1, 21), ANY),
    "opset 26, the newest of ONNX Runtime": (lambda: dense(1, 26), ANY),
    "opset 26, squeezed": (lambda: squeezed("n", 26), ANY),
    # onnx is ahead of ONNX Runtime, which says how far it goes.
    "the newest opset of onnx": (lambda: dense(1, onnx_opset_version()), r"support .* is till opset 26"),
    "only operators of ai.onnx.ml, of one number": (without_own_operators, 1),
    "Reshape to 1 and the rest": (lambda: reshaped(1, [2, 3], [1, 6]), ANY),
    "Reshape with -1 elsewhere": (lambda: reshaped(1, [2, 3], [1, -1]), ANY),
    "Reshape with 0": (lambda: reshaped(1, [2, 3], [0, -1]), ANY),
    "Reshape that merges": (lambda: reshaped(1, [2, 3], [2, 3]), 1),
    "Reshape of 4 that merges": (lambda: reshaped(4, [2, 3], [8, 3]), 1),
    "Reshape with a new axis of 1": (lambda: reshaped(1, [2, 3], [1, 1, 6]), ANY),
    "batch in the second axis": (lambda: transposed(1), ANY),
    "batch of 4 in the second axis": (lambda: transposed(4), ANY),
    "LSTM with zeros": (lambda: recurrent("LSTM", 4, 1, True), ANY),
    "LSTM of 4 with a state": (lambda: recurrent("LSTM", 4, 4, False), ANY),
    "GRU with a state": (lambda: recurrent("GRU", 3, 1, False), ANY),
    "RNN with a state": (lambda: recurrent("RNN", 1, 1, False), ANY),
    "class token": (lambda: with_token(1), ANY),
    "class tokens of 4": (lambda: with_token(4), ANY),
    "Resize to sizes": (lambda: resized(1), ANY),
    "Expand to sizes": (
        lambda: one("Expand", [x(1, 1, 4)], [y(1, 3, 4)], names="x s", s=np.array([1, 3, 4])), ANY),
    "a Slice to the batch": (
        lambda: one("Slice", [x(8, 4)], [y(8, 4)], names="x s e s", s=np.array([0]), e=np.array([8])), 8),
    "decibels below the loudest, batch of 1": (lambda: decibels(1), 1),
    "decibels below the loudest": (lambda: decibels("n"), 1),
    "a constant for each row": (
        lambda: one("Add", [x(2, 4)], [y(2, 4)], names="x c", c=weights(2, 4)), 2),
    "an output without a batch axis at 1": (lambda: squeezed(1), ANY),
    "an output that loses its axis at 1": (lambda: squeezed("n"), ANY),
    "likewise at opset 11": (lambda: squeezed("n", 11), ANY),
    "likewise with a batch of 4": (lambda: squeezed(4), ANY),
    "a sum over the batch of 1": (
        lambda: one("ReduceSum", [x(1, 4)], [y(4)], names="x a", a=np.array([0]), _keepdims=0), 1),
    "a running sum over a free axis": (
        lambda: one("CumSum", [x("n", 4)], [y("n", 4)], names="x a", a=np.array(0)), 1),
    "a softmax over a free axis": (lambda: one("Softmax", [x("n", 4)], [y("n", 4)], _axis=0), 1),
    "a number for all rows": (lambda: one("ReduceSum", [x("n", 4)], [y()], _keepdims=0), 1),
    "two inputs, one free axis each": (
        lambda: one("MatMul", [x("n", 4), x("m", 4, 2, name="z")], [y()], names="x z"), 1),
    "two inputs of the same rows": (
        lambda: one("Add", [x("n", 4), x("m", 4, name="z")], [y("n", 4)], names="x z"), ANY),
    "inputs with and without a batch": (
        lambda: one("Mul", [x("n", 4), x(4, name="z")], [y("n", 4)], names="x z"), 1),
    "a scalar input": (lambda: one("Mul", [x("n", 4), x(name="z")], [y("n", 4)], names="x z"), 1),
    "only a scalar": (lambda: one("Exp", [x()], [y()]), 1),
    "no output values": (
        lambda: one("Slice", [x("n", 4)], [y()], names="x s s a", s=np.array([0]), a=np.array([1])), ANY),
    "fp16": (lambda: one("Add", [x("n", 4, kind=F16)], [y("n", 4, kind=F16)], names="x x"), ANY),
    "fp16, fixed": (lambda: one("Relu", [x(1, 4, kind=F16)], [y(1, 4, kind=F16)]), ANY),
    "bf16": (lambda: graph(
        [N("Cast", ["x"], ["h"], to=F), N("Relu", ["h"], ["r"]), N("Cast", ["r"], ["y"], to=BF16)],
        [x("n", 4, kind=BF16)], [y("n", 4, kind=BF16)]), ANY),
    "uint8": (lambda: graph(
        [N("Cast", ["x"], ["h"], to=F), N("Reshape", ["h", "s"], ["y"])], [x(1, 2, 3, kind=U8)], [y()],
        s=np.array([1, 6])), ANY),
    "int32 into a table": (
        lambda: one("Gather", [x(1, 5, kind=I32)], [y(1, 5, 3)], names="t x", t=weights(1000, 3)), ANY),
    "texts looked up": (lambda: looked_up("n", 3), ANY),
    "texts looked up, fixed": (lambda: looked_up(1, 3), ANY),
    "a text for each sample": (lambda: looked_up("n"), ANY),
    "texts given": (lambda: looked_up("n", 3, given=True), ANY),
    "weights listed as inputs": (listed_weights, ANY),
    "weights listed as inputs, IR 3": (old_listed_weights, ANY),
    "a function of its own": (lambda: function("n"), ANY),
    "a function of its own, fixed": (lambda: function(1), ANY),
    "If": (lambda: chosen("n"), ANY),
    "If, fixed": (lambda: chosen(1), 1),
    "Loop": (lambda: looped("n"), ANY),
    "Loop, fixed": (lambda: looped(1), 1),
    "ZipMap": (zip_map, ANY),
    "trees": (trees, ANY),
    "ONNX Runtime's own operator": (lambda: graph(
        [N("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft", alpha=2.0)], [x(1, 4)], [y(1, 3)],
        domains=("com.microsoft",), w=weights(4, 3)), ANY),
    "an operator of somebody's": (lambda: graph(
        [N("Secret", ["x"], ["y"], domain="acme")], [x("n", 4)], [y("n", 4)], domains=("acme",)),
        r"can't load .*Secret"),
    "an opset of the future": (lambda: dense("n", 99), "opset"),
    "a sequence as input": (sequence_input, "the input x is of type sequence"),
    "an optional input": (optional_input, "the input x is of type optional"),
    "a sequence as output": (sequence_output, "the output y is of type sequence"),
    "an input as output": (lambda: graph([N("Relu", ["x"], ["y"])], [x(4)], [y(4), x(4)]), ANY),
    "random numbers": (lambda: one("RandomNormalLike", [x(1, 4)], [y(1, 4)]), r"random numbers \(RandomNormalLike\)"),
}  # fmt: skip
