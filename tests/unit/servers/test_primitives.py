"""Where primitives of libraries lie: in operators of PyTorch, and in nodes of OpenVINO."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.servers.sources.onednn import Primitive
from inferbench_tasks.servers.sources.openvino_primitives import Node, add_kernels, matched, mean_of
from inferbench_tasks.servers.sources.torch_profiler import layers_of
from tests.unit.servers.test_trace_sources import event


def primitive(
    kind: str, start_ns: int, end_ns: int, flops: int | None = 0, results: int | None = None
) -> Primitive:
    """One of oneDNN's."""
    about = {"library": "oneDNN", "problem": "p", "flops": flops, "bytes": 8}
    return Primitive("jit", kind, start_ns, end_ns, about, results)


def test_operators_and_primitives_lie_within_each_other() -> None:
    """A layer has its operator inside, this the next one, and that the primitive whose middle is in it."""
    events = [
        event("aten::conv2d", 10, 20),
        event("aten::mkldnn_convolution", 12, 17),
        event("aten::empty", 13, 1),
        event("aten::relu", 40, 5),
    ]
    primitives = [primitive("reorder", 14_500, 15_000), primitive("convolution", 15_200, 29_100, 64)]
    conv, relu = layers_of({"traceEvents": events}, 7, (), [*primitives, primitive("sum", 35_000, 35_100)])
    assert [node["name"] for node in conv["inside"]] == ["aten::conv2d"]
    (inner,) = conv["inside"][0]["inside"]
    assert (inner["type"], [node["type"] for node in inner["inside"]]) == (
        "mkldnn_convolution",
        ["empty", "reorder", "convolution"],
    )
    assert inner["inside"][2]["attributes"]["flops"] == 64
    assert [(node["name"], node["inside"]) for node in relu["inside"]] == [("aten::relu", [])]
    assert "inside" not in layers_of({"traceEvents": events}, 7)[0]


def product(name: str, *dims: list[int]) -> dict[str, Any]:
    """An operator with the sizes of its operands."""
    made = event(name, 0, 10)
    made["args"] = {"Input Dims": [list(each) for each in dims], "Input type": ["float"] * len(dims)}
    return made


def test_products_of_matrices_have_their_work() -> None:
    """2 m n k FLOP, and all operands with the result; of a primitive that calculates it the work is that one's."""

    def known(made: dict[str, Any], *primitives: Primitive) -> dict[str, Any]:
        (layer,) = layers_of({"traceEvents": [made]}, 7, (), primitives)
        attributes: dict[str, Any] = layer["inside"][0]["attributes"]
        return attributes

    addmm = product("aten::addmm", [10], [2, 4], [4, 10])
    assert known(addmm) == {
        "library": "ATen", "flops": 2 * 2 * 10 * 4, "bytes": 4 * (10 + 8 + 40 + 20), "data_type": "f32",
    }  # fmt: skip
    assert known(product("aten::bmm", [3, 2, 4], [3, 4, 5]))["flops"] == 2 * 3 * 2 * 5 * 4
    assert known(addmm, primitive("matmul", 1_000, 2_000, 160)) == {"library": "ATen"}
    assert "flops" in known(addmm, primitive("reorder", 1_000, 2_000, 0))
    for dims in ([[2, 4], [5, 10]], [[4], [4]], []):
        assert known(product("aten::mm", *dims)) == {"library": "ATen"}


def test_nodes_have_the_primitives_that_fit() -> None:
    """In their order, by kind and number of values; nodes of other kinds, and those that ran otherwise, have none."""
    nodes = [
        Node("Reorder", (1, 3, 4)),
        Node("Reorder", (1, 5)),
        Node("Convolution", (-1, 8)),
        Node("ReduceMean", None),
        Node("FullyConnected", (1, 10)),
    ]
    reorder, convolution = primitive("reorder", 0, 1, 0, 5), primitive("convolution", 1, 2, 9, 16)
    assert matched(nodes, [reorder, convolution]) == {1: 0, 2: 1}
    assert matched(nodes, [convolution, reorder]) is None  # not in this order
    assert matched(nodes, [reorder]) is None  # a convolution that ran as nothing
    assert matched(nodes, [reorder, convolution, primitive("matmul", 2, 3, 9, 11)]) is None


def test_a_primitive_that_may_be_of_two_nodes_is_of_none() -> None:
    """Of three products alike two ran as primitives: the middle one's may be of either, the convolution's is sure."""
    nodes = [
        Node("MatMul", (2, 4)),
        Node("Convolution", (8,)),
        Node("MatMul", (2, 4)),
        Node("MatMul", (2, 4)),
    ]
    product, convolution = primitive("matmul", 0, 1, 9, 8), primitive("convolution", 1, 2, 9, 8)
    assert matched(nodes, [product, convolution, product]) == {0: 0, 1: 1}
    assert matched(nodes, [product, convolution, product, product]) == {0: 0, 1: 1, 2: 2, 3: 3}


def test_a_primitive_that_takes_longer_than_its_node_fits_nowhere() -> None:
    """95 us in a node of 2 us, whose mean may be off by 2: none is told; 4 us may be."""

    def told(primitive_ns: int) -> list[Any]:
        layers: list[dict[str, Any]] = [
            {"name": name, "type": "MatMul", "start_ns": 0, "end_ns": end_ns,
             "attributes": {"kernel": "gemm", "mean_of_runs": 1, "error_us": 2.0, "output_shapes": [shape]}}
            for name, end_ns, shape in (("attn0", 2_000, [2, 4]), ("fc", 100_000, [2, 5]))
        ]  # fmt: skip
        add_kernels(
            layers, [primitive("matmul", 0, primitive_ns, 9, 8), primitive("matmul", 0, 90_000, 9, 10)]
        )
        return [len(layer["inside"][0]["inside"]) for layer in layers]

    assert told(95_000) == [0, 0]
    assert told(4_000) == [1, 1] and told(4_001) == [0, 0]


def test_a_node_is_its_kernel_and_the_mean_of_its_primitive_is_in_it() -> None:
    """From the node's beginning on; where primitives do not fit, the kernel's name is all."""
    about = {"kernel": "brgconv", "mean_of_runs": 2, "output_shapes": [[1, 8]]}
    layer: dict[str, Any] = {
        "name": "n",
        "type": "Convolution",
        "start_ns": 100,
        "end_ns": 200,
        "attributes": about,
    }
    runs = [[primitive("convolution", 0, 30, 9, 8)], [primitive("convolution", 500, 550, 9, 8)]]
    add_kernels([layer], mean_of(runs))
    (kernel,) = layer["inside"]
    assert (kernel["name"], kernel["start_ns"], kernel["end_ns"]) == ("brgconv", 100, 200)
    (inner,) = kernel["inside"]
    assert (inner["start_ns"], inner["end_ns"], inner["attributes"]["mean_of_runs"]) == (100, 140, 2)

    add_kernels([layer], mean_of([*runs, []]))
    assert layer["inside"][0]["inside"] == []
