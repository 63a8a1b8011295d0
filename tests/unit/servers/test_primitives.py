"""Where primitives of libraries lie: in operators of PyTorch."""

from __future__ import annotations

import json
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

from inferbench_tasks.servers.sources.onednn import Primitive
from inferbench_tasks.servers.sources.torch_profiler import TorchProfiler, layers_of
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
    late, outside = primitive("sum", 35_000, 35_100), list[Primitive]()
    conv, relu = layers_of({"traceEvents": events}, 7, (), [*primitives, late], outside)
    assert outside == [late]
    assert [node["name"] for node in conv["inside"]] == ["aten::conv2d"]
    (inner,) = conv["inside"][0]["inside"]
    assert (inner["type"], [node["type"] for node in inner["inside"]]) == (
        "mkldnn_convolution",
        ["empty", "reorder", "convolution"],
    )
    assert inner["inside"][2]["attributes"]["flops"] == 64
    assert [(node["name"], node["inside"]) for node in relu["inside"]] == [("aten::relu", [])]
    assert "inside" not in layers_of({"traceEvents": events}, 7)[0]


class Output:
    """oneDNN's lines of a run, made up."""

    def stop(self) -> list[str]:
        """A reorder of 100 us, half a millisecond after all operators."""
        memory = "src_f32::blocked:abcd::f0 dst_f32::blocked:acdb::f0"
        return [f"onednn_verbose,v1,0.5,primitive,exec,cpu,reorder,jit:uni,undef,{memory},,,1x3x4x4,0.1"]


class Profile:
    """A profile of PyTorch's with these operators."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self._events = events

    def __exit__(self, *_: object) -> None:
        """It ends."""

    def export_chrome_trace(self, path: str) -> None:
        """As Kineto writes it."""
        Path(path).write_text(json.dumps({"traceEvents": self._events}))


def test_what_a_profile_does_not_tell_of_is_counted(tmp_path: Path) -> None:
    """Of four runs one has no operator of its thread, which is lost, one raised, and of the others oneDNN ran a
    primitive in no operator: that is no kernel, and it is told how much it is. The run before is none of them."""
    source = TorchProfiler(str(tmp_path / "x"))
    source._library = True
    thread = threading.get_native_id()
    for start_ns in (5, 10, 20, 30, 40):
        operator = event("aten::relu", 10, 5, tid=thread if start_ns != 20 else thread + 1)
        source._output, source._verbose = cast(Any, Output()), nullcontext()
        source._profile = Profile(operator)
        source.stop(start_ns, start_ns + 5)
        if start_ns == 30:
            source.raised()

    def counted(since_ns: int) -> tuple[int, dict[str, int] | None]:
        source.spans(since_ns, 100)
        return source.lost, source.outside

    assert counted(10) == (1, {"primitives": 3, "ns": 300_000})
    assert counted(50) == (0, None)


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
