"""Where primitives of libraries lie: in operators of PyTorch."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.servers.sources.onednn import Primitive
from inferbench_tasks.servers.sources.torch_profiler import layers_of
from tests.unit.servers.test_trace_sources import event


def primitive(kind: str, start_ns: int, end_ns: int, flops: int | None = 0) -> Primitive:
    """One of oneDNN's."""
    about = {"library": "oneDNN", "problem": "p", "flops": flops, "bytes": 8}
    return Primitive("jit", kind, start_ns, end_ns, about)


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
