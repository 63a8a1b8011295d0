"""What sources of layers make of what their runtimes tell, by hand."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from inferbench_tasks.servers.sources import openvino
from inferbench_tasks.servers.sources.onnxruntime import OnnxRuntimeProfile
from inferbench_tasks.servers.sources.openvino import OpenVinoCounters
from inferbench_tasks.servers.sources.torch_profiler import layers_of
from inferbench_tasks.servers.sources.torch_program import Operator


def event(name: str, ts: float, dur: float, hierarchy: str = "", tid: int = 7) -> dict[str, Any]:
    """An operator as Kineto writes it, us."""
    args = {"Module Hierarchy": hierarchy} if hierarchy else {}
    return {"ph": "X", "cat": "cpu_op", "name": name, "tid": tid, "ts": ts, "dur": dur, "args": args}


def test_the_outermost_operators_are_the_layers() -> None:
    """Of ``forward`` with two operators in it, one with another inside, two are layers; other threads are none."""
    events = [
        event("aten::relu", 30, 5, "TOP(N)::forward."),
        event("forward", 0, 50, "TOP(N)::forward."),
        event(
            "aten::conv2d", 10, 15, "TOP(N)::forward.block(Seq)::forward.0(Conv2d)::forward.SELF(Conv2d)::_c."
        ),
        event("aten::convolution", 11, 13.5),
        event("aten::copy_", 12, 1, tid=8),
        {"ph": "M", "name": "process_name"},
    ]
    layers = layers_of({"baseTimeNanoseconds": 1_000, "traceEvents": events}, 7)
    assert [(layer["name"], layer["type"]) for layer in layers] == [
        ("block.0/conv2d", "conv2d"),
        ("relu", "relu"),
    ]
    assert (layers[0]["start_ns"], layers[0]["end_ns"]) == (11_000, 26_000)


def test_what_holds_nothing_is_a_layer_without_a_namespace() -> None:
    """A fused group is named by itself."""
    layers = layers_of({"traceEvents": [event("forward", 0, 9), event("TensorExprGroup", 1, 3)]}, 7)
    assert [layer["name"] for layer in layers] == ["TensorExprGroup"]


def test_an_exported_program_names_its_operators() -> None:
    """What surrounds the module's call has no module; where the run is not the program's, names are the profile's."""
    events = [
        event(f"aten::{name}", at * 10, 5) for at, name in enumerate(("to", "linear", "relu", "detach"))
    ]
    program = [Operator("linear", "fc1", [-1, 4], 64), Operator("relu", "", [-1, 4])]
    layers = layers_of({"traceEvents": events}, 7, program)
    assert [layer["name"] for layer in layers] == ["to", "fc1/linear", "relu", "detach"]
    assert layers[1]["attributes"] == {"output_shapes": [[-1, 4]], "output_bytes": 64}
    assert layers[2]["attributes"] == {"output_shapes": [[-1, 4]]} and layers[3]["attributes"] == {}
    other = layers_of({"traceEvents": events}, 7, [*program, Operator("softmax", "")])
    assert [layer["name"] for layer in other] == ["to", "linear", "relu", "detach"]


@dataclass
class Request:
    """An inference request whose counters stand at these means, us."""

    means_us: list[int]

    def get_profiling_info(self) -> list[Any]:
        """As OpenVINO's."""
        return [
            SimpleNamespace(
                node_name=f"n{at}",
                node_type="Add",
                exec_type="jit",
                status=SimpleNamespace(name="EXECUTED" if mean >= 0 else "NOT_RUN"),
                real_time=timedelta(microseconds=max(0, mean)),
            )
            for at, mean in enumerate(self.means_us)
        ]


#: Later than all runs here, ns.
END = 1_000_000_000


def counters(*stands: tuple[int, list[int], int, int], library: bool = False) -> OpenVinoCounters:
    """Counters with the first reading before any run; each: inferences so far, means, a run's beginning and end, us."""
    source = OpenVinoCounters({}, library=library)
    count, means, *_ = stands[0]
    source.count, source._request = count, Request(means)
    source.start()
    for count, means, start, end in stands[1:]:
        source.count, source._request = count, Request(means)
        source.stop(start * 1000, end * 1000)
    return source


def test_running_means_are_taken_apart() -> None:
    """Two inferences at 100 us on average, four at 60: the later two took 20 each, in the run nearest to their mean."""
    source = counters(
        (1, [190, 5], 0, 0), (2, [100, 5], 10, 300), (3, [73, 5], 400, 440), (4, [60, 5], 500, 532)
    )
    layers = source.spans(400_000, END)
    assert [layer["end_ns"] - layer["start_ns"] for layer in layers] == [20_000, 5_000]
    assert layers[1]["start_ns"] == layers[0]["end_ns"]
    assert layers[0]["attributes"]["mean_of_runs"] == 2 and layers[0]["attributes"]["error_us"] == 2.0
    first = source.spans(0, END)  # of all three that were seen: (4 * 60 - 1 * 190) / 3
    assert first[0]["end_ns"] - first[0]["start_ns"] == pytest.approx(16_667)


def test_a_run_that_was_kept_from_its_core_leaves_no_layer_without_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four runs of 10 us, of which the node took 8, and one of 100 with 88 of it: its mean of 24 us is in the one run
    that is as long, not beyond one of the four, where no run would have it."""
    source = counters(
        (0, [0], 0, 0), (1, [8], 10, 20), (2, [8], 30, 40), (3, [34], 50, 150), (4, [28], 200, 210), (5, [24], 220, 230)
    )  # fmt: skip
    monkeypatch.setattr(openvino, "epoch_offset", lambda: {"offset_ns": 0, "error_ns": 0})
    (layer,) = source.spans(10_000, END)
    assert (layer["start_ns"], layer["end_ns"]) == (50_000, 74_000)


def test_what_is_asked_after_the_traced_requests_is_none_of_their_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer that is checked in the end is no traced request: its time is not in the mean, nor the mean in it."""
    stands = (0, [0], 0, 0), (1, [20], 10, 50), (2, [20], 100, 130), (3, [80], 200, 420)
    monkeypatch.setattr(openvino, "epoch_offset", lambda: {"offset_ns": 0, "error_ns": 0})
    (layer,) = counters(*stands).spans(10_000, 150_000)
    assert (layer["start_ns"], layer["end_ns"]) == (10_000, 30_000)
    assert layer["attributes"]["mean_of_runs"] == 2
    assert counters(*stands).spans(430_000, END) == []


def test_a_node_is_its_kernel() -> None:
    """At the library level each node has its kernel inside, by name, for all of its time, and nothing in that."""
    (layer,) = counters((0, [0], 0, 0), (1, [50], 10, 90), library=True).spans(10_000, END)
    (kernel,) = layer["inside"]
    assert (kernel["name"], kernel["inside"]) == ("jit", [])
    assert (kernel["start_ns"], kernel["end_ns"]) == (layer["start_ns"], layer["end_ns"])
    assert kernel["attributes"] == {"library": "OpenVINO", "mean_of_runs": 1}
    (plain,) = counters((0, [0], 0, 0), (1, [50], 10, 90)).spans(10_000, END)
    assert "inside" not in plain


def test_a_mean_that_falls_by_rounding_is_no_negative_time() -> None:
    """1.9 us was told as 1, 1.4 as 1 and then 0.9 as 0: nothing is below 0."""
    source = counters((4, [1], 0, 0), (5, [0], 10, 20))
    (layer,) = source.spans(10_000, END)
    assert layer["end_ns"] == layer["start_ns"]


def test_nodes_that_ran_sometimes_are_not_told() -> None:
    """Their means are of numbers of inferences that nobody knows: the runs are counted as lost, but one that raised."""
    source = counters((0, [-1, -1], 0, 0), (1, [30, 8], 10, 60), (2, [30, -1], 70, 120))
    assert source.spans(10_000, END) == [] and source.lost == 2
    source.stop(130_000, 140_000)
    source.raised()
    assert source.spans(10_000, END) == [] and source.lost == 2


def test_a_run_that_raised_is_not_one_that_a_profile_lost(tmp_path: Path) -> None:
    """ONNX Runtime tells of no run that it refused: of three of which two were good and one was told, one is lost."""
    source = OnnxRuntimeProfile(str(tmp_path / "x"), SimpleNamespace())
    for start_ns in (10, 20, 30):
        source.start()
        source.stop(start_ns, start_ns + 5)
        if start_ns == 20:
            source.raised()
    path = tmp_path / "profile.json"
    path.write_text(json.dumps([{"name": "model_run", "cat": "Session", "ts": 1, "dur": 1}]))
    source.session = SimpleNamespace(
        get_profiling_start_time_ns=time.time_ns, end_profiling=lambda: str(path)
    )
    assert source.spans(0, END) == [] and source.lost == 1
