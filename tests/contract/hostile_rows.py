"""Odd and hostile ONNX graphs by their axes, rows and outputs, in the form of ``odd_graphs``: what exporters and people
do that the specification allows, or that it does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper

from tests.contract.odd_graphs import ANY, I64, TEXT, Case, F, N, dense, graph, one, weights, x, y

BOOL, ML = TensorProto.BOOL, ("ai.onnx.ml",)


def info(name: str, kind: int = F, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def product() -> list[Any]:
    return [N("MatMul", ["x", "w"], ["y"])]


# Axes and their names.


def named_alike() -> Any:
    """The batch and the features have one name, and differ."""
    return graph(
        [N("MatMul", ["x", "w"], ["h"]), N("Relu", ["h"], ["y"])], [x("n", 4)], [y("n", "n")], w=weights(4, 3)
    )


def taken_name(batch: int) -> Any:
    """A free second axis that is called as the freed first one would be."""
    nodes = [N("Add", ["x", "x"], ["a"]), N("ReduceSum", ["a", "one"], ["s"]), N("Mul", ["a", "s"], ["b"]),
             N("Relu", ["b"], ["y"])]  # fmt: skip
    return graph(nodes, [x(batch, "batch")], [y(batch, "batch")], one=np.array([1]))


def square() -> Any:
    """A model of which the rows are as many as the columns."""
    return one("MatMul", [x("n", "n")], [y("n", "n")], names="x x")


def unranked() -> Any:
    made = one("Relu", [x("n", 4)], [y("n", 4)])
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.ClearField("shape")
    return made


def negative() -> Any:
    """-1 written as a size, as some exporters do for a free one."""
    made = dense("n")
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].Clear()
        value.type.tensor_type.shape.dim[0].dim_value = -1
    return made


def nameless() -> Any:
    """A free axis without a name, and nodes without any."""
    made = dense("n")
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].Clear()
    return made


def our_names(batch: int | str) -> Any:
    """Values that are called as those that adapting a file adds."""
    nodes = [N("Relu", ["x"], ["x/inside"]), N("ReduceMax", ["x/inside"], ["m"], keepdims=0),
             N("Sub", ["x/inside", "m"], ["y/inside"]), N("Exp", ["y/inside"], ["y"])]  # fmt: skip
    return graph(nodes, [x(batch, 4)], [y(batch, 4)])


def rows_of(name: str) -> list[Any]:
    """How many rows there are, as k."""
    return [N("Shape", [name], ["s"], start=0, end=1), N("Squeeze", ["s"], ["k"])]


def steps_first() -> Any:
    nodes = [N("RNN", ["x", "w", "r"], ["all", "last"], hidden_size=3), N("Squeeze", ["all", "one"], ["y"])]
    return graph(nodes, [x("steps", "n", 4)], [y("steps", "n", 3)], w=weights(1, 3, 4), r=weights(1, 3, 3),
                 one=np.array([1]))  # fmt: skip


# What becomes of the rows.


def repeated() -> Any:
    """Two rows of the answer for each sample."""
    nodes = [N("Concat", ["x", "x"], ["c"], axis=1), N("Reshape", ["c", "s"], ["y"])]
    return graph(nodes, [x("n", 4)], [y("m", 4)], s=np.array([-1, 4]))


def rows_that_count() -> Any:
    """Only rows above 0 are answered."""
    nodes = [N("ReduceSum", ["x", "one"], ["s"], keepdims=0), N("Greater", ["s", "zero"], ["c"]),
             N("Compress", ["x", "c"], ["y"], axis=0)]  # fmt: skip
    return graph(nodes, [x("n", 4)], [y("m", 4)], one=np.array([1]), zero=np.array(0, np.float32))


def numbered() -> Any:
    """Each row gets its place in the batch."""
    nodes = [
        *rows_of("x"), N("Range", ["zero", "k", "step"], ["r"]), N("Cast", ["r"], ["f"], to=F),
        N("Unsqueeze", ["f", "one"], ["u"]), N("Add", ["x", "u"], ["y"]),
    ]  # fmt: skip
    return graph(nodes, [x("n", 4)], [y("n", 4)], zero=np.array(0), step=np.array(1), one=np.array([1]))


def less_the_first(batch: int | str) -> Any:
    nodes = [N("Gather", ["x", "z"], ["f"], axis=0), N("Sub", ["x", "f"], ["y"])]
    return graph(nodes, [x(batch, 4)], [y(batch, 4)], z=np.array([0]))


def otherwise_when_many() -> Any:
    """More than four rows are answered by another branch."""
    nodes = [N("Shape", ["x"], ["s"], start=0, end=1), N("Squeeze", ["s"], ["k"]), N("Greater", ["k", "four"], ["c"]),
             N("If", ["c"], ["y"], then_branch=helper.make_graph([N("Neg", ["x"], ["o"])], "t", [], [info("o")]),
               else_branch=helper.make_graph([N("Relu", ["x"], ["o"])], "e", [], [info("o")]))]  # fmt: skip
    return graph(nodes, [x("n", 4)], [y("n", 4)], four=np.array(4))


def loop_over_rows(batch: int | str) -> Any:
    """A Loop with a row of the outer x in each turn, joined at its end."""
    body = helper.make_graph(
        [N("Identity", ["go"], ["more"]), N("Gather", ["x", "i"], ["row"], axis=0), N("MatMul", ["row", "w"], ["out"])],
        "body", [info("i", I64, []), info("go", BOOL, [])], [info("more", BOOL, []), info("out")],
    )  # fmt: skip
    nodes = [
        N("Shape", ["x"], ["s"], start=0, end=1),
        N("Squeeze", ["s"], ["k"]),
        N("Loop", ["k", ""], ["y"], body=body),
    ]
    return graph(nodes, [x(batch, 4)], [y(batch, 3)], w=weights(4, 3))


def scanned() -> Any:
    """A running sum by Scan, over the features: no row knows of another."""
    body = helper.make_graph(
        [N("Add", ["s", "e"], ["t"]), N("Identity", ["t"], ["o"])], "body", [info("s", F, None), info("e", F, None)],
        [info("t", F, None), info("o", F, None)],
    )  # fmt: skip
    nodes = [N("ReduceSum", ["x", "one"], ["r"], keepdims=0), N("Mul", ["r", "zero"], ["begin"]),
             N("Scan", ["begin", "x"], ["last", "y"], body=body, num_scan_inputs=1, scan_input_axes=[1],
               scan_output_axes=[1])]  # fmt: skip
    return graph(nodes, [x("n", 4)], [y("n", 4)], one=np.array([1]), zero=np.array(0, np.float32))


def nested() -> Any:
    """An If in a Loop, both with values from outside."""
    inner = [
        helper.make_graph([N(kind, ["state", "h"], ["o"])], kind, [], [info("o")]) for kind in ("Add", "Sub")
    ]
    body = helper.make_graph(
        [N("Identity", ["go"], ["more"]), N("Mod", ["i", "two"], ["rest"]), N("Equal", ["rest", "nothing"], ["even"]),
         N("If", ["even"], ["next"], then_branch=inner[0], else_branch=inner[1])],
        "body", [info("i", I64, []), info("go", BOOL, []), info("state")], [info("more", BOOL, []), info("next")],
    )  # fmt: skip
    nodes = [N("Relu", ["x"], ["h"]), N("Loop", ["times", "", "x"], ["y"], body=body)]
    return graph(nodes, [x("n", 4)], [y("n", 4)], times=np.array(3), two=np.array(2), nothing=np.array(0))


def indices() -> Any:
    """Where each largest value lies, counted from the first row of the batch on."""
    nodes = [N("MaxPool", ["x"], ["v", "i"], kernel_shape=[2], strides=[2]), N("Identity", ["i"], ["y"])]
    return graph(nodes, [x("n", 2, 4)], [y("n", 2, 2, kind=I64)])


def normalised_by_the_batch() -> Any:
    node = N("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "nm", "nv"], training_mode=1)
    ones, zeros = np.ones(4, np.float32), np.zeros(4, np.float32)
    return graph([node], [x("n", 4)], [y("n", 4)], s=ones, b=zeros, m=zeros, v=ones)


# What no answer depends on, and what leaves.


def beside_a_weight(rows: int) -> Any:
    """An output that is the same whatever comes, with an axis that looks like a batch."""
    nodes = [*product(), N("Identity", ["k"], ["c"])]
    return graph(
        nodes, [x("n", 4)], [y("n", 3), y(rows, 3, name="c")], w=weights(4, 3), k=weights(rows, 3, seed=1)
    )


def a_weight_itself() -> Any:
    return graph(product(), [x("n", 4)], [y("n", 3), y(4, 3, name="w")], w=weights(4, 3))


def sizes_too() -> Any:
    return graph(
        [*product(), N("Shape", ["x"], ["s"])],
        [x("n", 4)],
        [y("n", 3), y(2, kind=I64, name="s")],
        w=weights(4, 3),
    )


def twice() -> Any:
    made = dense("n")
    made.graph.output.append(made.graph.output[0])
    return made


def unused(batch: int | str) -> Any:
    return graph(product(), [x(batch, 4), x(batch, 2, name="z")], [y(batch, 3)], w=weights(4, 3))


def unsorted(batch: int | str) -> Any:
    nodes = [N("Relu", ["h"], ["y"]), N("MatMul", ["x", "w"], ["h"])]
    return graph(nodes, [x(batch, 4)], [y(batch, 3)], w=weights(4, 3))


def optional_output() -> Any:
    made = graph([N("Optional", ["x"], ["y"])], [x("n", 4)], [])
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(F, ["n", 4]))
    made.graph.output.append(helper.make_value_info("y", kind))
    return made


def sequence_inside(batch: int | str) -> Any:
    nodes = [N("SplitToSequence", ["x"], ["s"], axis=1), N("ConcatFromSequence", ["s"], ["y"], axis=1)]
    return graph(nodes, [x(batch, 4)], [y(batch, 4)])


def named_classes() -> Any:
    """A classifier of sklearn with texts as classes: the label is a text, and maps have them as keys."""
    classes = ["cat", "dog", "none"]
    nodes = [
        N("LinearClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", coefficients=weights(12).tolist(),
          intercepts=[0.0] * 3, classlabels_strings=classes, post_transform="SOFTMAX"),
        N("ZipMap", ["scores"], ["probabilities"], domain="ai.onnx.ml", classlabels_strings=classes),
    ]  # fmt: skip
    made = graph(nodes, [x("n", 4)], [y("n", kind=TEXT, name="label")], domains=ML)
    made.graph.output.append(helper.make_value_info("probabilities", helper.make_sequence_type_proto(
        helper.make_map_type_proto(TEXT, helper.make_tensor_type_proto(F, [])))))  # fmt: skip
    return made


def columns(batch: int | str) -> Any:
    """The columns of a table: numbers and texts, an input each."""
    nodes = [
        N("LabelEncoder", ["city"], ["c"], domain="ai.onnx.ml", keys_strings=["a", "cat"], values_floats=[1.0, 2.0],
          default_float=-1.0),
        N("Concat", ["x", "c"], ["t"], axis=1), N("MatMul", ["t", "w"], ["y"]),
    ]  # fmt: skip
    made = graph(nodes, [x(batch, 1), x(batch, 1, kind=TEXT, name="city")], [y(batch, 3)], w=weights(2, 3))
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 2))
    return made


def einsum(equation: str, batch: int | str, *shape: int) -> Any:
    return one("Einsum", [x(batch, 4)], [y(*shape)], names="x w", _equation=equation, w=weights(4, 3))


def merged() -> Any:
    return one("Reshape", [x("n", 4)], [y("m")], names="x s", s=np.array([-1]))


ROWS: dict[str, Case] = {
    "batch and features named alike": (named_alike, ANY),
    "a free axis called batch": (lambda: taken_name(4), ANY),
    "a free axis called batch, of 1": (lambda: taken_name(1), ANY),
    "a square of the batch": (square, 1),
    "no rank": (unranked, "the input x doesn't say how many axes it has.* export the model with shapes"),
    "-1 as a size": (negative, ANY),
    "a free axis without a name": (nameless, ANY),
    "values named as ours": (lambda: our_names(1), 1),
    "values named as ours, free": (lambda: our_names("n"), 1),
    "steps first, both free": (steps_first, 1),
    "two rows for each sample": (repeated, 1),
    "rows that count": (rows_that_count, 1),
    "each row's number": (numbered, 1),
    "less the first row": (lambda: less_the_first("n"), 1),
    "less the first row, fixed": (lambda: less_the_first(1), 1),
    "less the first row, of 4": (lambda: less_the_first(4), 4),
    "otherwise for many rows": (otherwise_when_many, 1),
    "a Loop over the rows": (lambda: loop_over_rows("n"), ANY),
    "a Loop over the rows, of 4": (lambda: loop_over_rows(4), 4),
    "a Scan over the features": (scanned, ANY),
    "an If in a Loop": (nested, ANY),
    "indices that count over the batch": (indices, 1),
    "a normalisation by the batch": (normalised_by_the_batch, 1),
    "beside a constant of four rows": (lambda: beside_a_weight(4), 1),
    "beside a constant of one row": (lambda: beside_a_weight(1), 1),
    "a weight as output": (a_weight_itself, 1),
    "sizes as output": (sizes_too, 1),
    "an output twice": (twice, ANY),
    "an input that nothing reads": (lambda: unused("n"), ANY),
    "an input that nothing reads, fixed": (lambda: unused(4), ANY),
    "nodes in no order": (lambda: unsorted("n"), ANY),
    "nodes in no order, fixed": (lambda: unsorted(4), 4),
    "an optional output": (optional_output, "the output y is of type optional"),
    "a sequence inside": (lambda: sequence_inside("n"), ANY),
    "a sequence inside, fixed": (lambda: sequence_inside(4), 4),
    "ZipMap with texts": (named_classes, ANY),
    "columns of a table": (lambda: columns("n"), ANY),
    "columns of a table, fixed": (lambda: columns(1), ANY),
    "Einsum that turns the batch": (lambda: einsum("bi,ij->jb", 1, 3, 1), 1),
    "Einsum, fixed": (lambda: einsum("bi,ij->bj", 4, 4, 3), ANY),
    "all rows in one axis": (merged, 1),
}  # fmt: skip
