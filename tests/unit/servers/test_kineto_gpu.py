"""What Kineto and ONNX Runtime tell of a GPU, by events that are made up in their documented form; and, where a GPU is,
of real runs (marker ``gpu``). No event here was recorded on one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from inferbench_tasks.analysis.stack.kernels import kernels_of
from inferbench_tasks.servers.sources import gpu_work, kineto_gpu
from inferbench_tasks.servers.sources.gpu_work import ALONE_NS, GPU_NS, Work, alone_of, clock_error, times_of
from inferbench_tasks.servers.sources.kineto_gpu import OnGpu
from inferbench_tasks.servers.sources.onnxruntime import OnnxRuntimeProfile
from inferbench_tasks.servers.sources.torch_profiler import NO_OPERATOR, TorchProfiler, layers_of
from inferbench_tasks.timing.epoch import epoch_offset
from inferbench_tasks.tracing.assemble import TOLERANCE_NS
from inferbench_tasks.tracing.profiled import with_library
from inferbench_tasks.tracing.spans import spans_of
from tests.unit.servers.test_primitives import Profile
from tests.unit.servers.test_trace_sources import END, event

ROOT = Path(__file__).resolve().parents[3]


def call(name: str, ts: float, dur: float, correlation: int, tid: int = 7) -> dict[str, Any]:
    """A call of CUDA's runtime as Kineto writes it (torch 2.13, ``profiler/_cupti_monitor_trace.py``), us."""
    about = {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
    return {**about, "args": {"cbid": 211, "correlation": correlation}}


def work(
    cat: str, name: str, ts: float, dur: float, correlation: int, stream: int = 7, **args: Any
) -> dict[str, Any]:
    """What the GPU did, on its own process and thread (device and stream)."""
    about = {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": dur}
    known = {"device": 0, "context": 1, "stream": stream, "correlation": correlation}
    return {**about, "args": {**known, **args}}


#: A copy to the GPU, a product whose kernel runs on while the CPU asks for the next one, and the answer, which waits.
MADE_UP = [
    event("aten::to", 0, 20), event("aten::linear", 30, 30), event("aten::addmm", 32, 26),
    event("aten::relu", 62, 8), event("aten::view", 71, 2), event("aten::copy_", 75, 110),
    call("cudaMemcpyAsync", 5, 4, 1), work("gpu_memcpy", "Memcpy HtoD", 12, 6, 1, bytes=640),
    call("cudaLaunchKernel", 40, 5, 2), work("kernel", "gemm", 50, 100, 2, grid=[16, 1, 1], block=[128, 1, 1]),
    call("cudaLaunchKernel", 64, 2, 3), work("kernel", "relu", 150.5, 19.5, 3),
    call("cudaMemcpyAsync", 78, 4, 4), work("gpu_memcpy", "Memcpy DtoH", 171, 5, 4, bytes=40),
    call("cudaStreamSynchronize", 83, 101, 5),
    # Another thread's, whose operators nobody recorded; and what is neither.
    call("cudaLaunchKernel", 100, 5, 6, tid=8), work("kernel", "other", 177, 1, 6),
    {"ph": "s", "cat": "ac2g", "id": 2, "tid": 7, "ts": 40}, {"ph": "X", "cat": "overhead", "ts": 0, "dur": 9},
]  # fmt: skip


def told(library: bool) -> tuple[list[dict[str, Any]], OnGpu]:
    """Layers of the made-up run, and what was told of the GPU."""
    devices: list[OnGpu] = []
    document = {"baseTimeNanoseconds": 1_000, "traceEvents": MADE_UP}
    layers = layers_of(document, 7, (), [] if library else None, None, devices)
    (device,) = devices
    return layers, device


def test_made_up_kernels_lie_in_the_calls_that_asked_for_them() -> None:
    """By correlation, each call in the innermost operator at that moment; with stream, grid and bytes as told."""
    layers, _ = told(library=True)
    linear, copied = layers[1], layers[4]
    (addmm,) = linear["inside"][0]["inside"]
    (launch,) = addmm["inside"]
    assert (launch["name"], launch["attributes"]) == ("cudaLaunchKernel", {"library": "CUDA"})
    (kernel,) = launch["inside"]
    assert (kernel["name"], kernel["type"], kernel["level"]) == ("gemm", "kernel", "hardware")
    assert (kernel["start_ns"], kernel["end_ns"]) == (
        51_000,
        151_000,
    )  # beyond its layer, which ends at 61,000
    assert kernel["attributes"] == {"library": "CUDA", "stream": 7, "grid": [16, 1, 1], "block": [128, 1, 1]}
    asks, waits = copied["inside"][0]["inside"]
    assert (waits["name"], waits["inside"]) == ("cudaStreamSynchronize", [])
    assert (asks["inside"][0]["type"], asks["inside"][0]["attributes"]["moved_bytes"]) == ("copy", 40)


def test_a_made_up_layer_has_the_time_of_the_gpu_not_of_asking_for_it() -> None:
    """At both levels; one that asked for nothing ran on the CPU, 2 us beside the GPU's product. What no operator asked
    for is in no layer and counted."""
    for library in (False, True):
        layers, device = told(library)
        assert [(layer["type"], layer["attributes"]) for layer in layers] == [
            ("to", {GPU_NS: 6_000}), ("linear", {GPU_NS: 100_000}), ("relu", {GPU_NS: 19_500}), ("view", {ALONE_NS: 0}),
            ("copy_", {GPU_NS: 5_000}),
        ]  # fmt: skip
        assert ("inside" in layers[0]) is library
        assert device.told and device.outside_ns == [1_000]


def test_the_gpu_s_moments_are_as_sure_as_the_made_up_calls_around_them() -> None:
    """7 us between the first copy and its call, 8 between the last one and the end of the wait for it: no more can the
    GPU's clock be off. Without a wait, or with one of another stream, nobody knows."""
    assert told(library=False)[1].clock_error_ns == 8_000
    assert clock_error([Work(10, 20, 5, 0)], []) is None
    assert (
        clock_error([Work(10, 20, 12, 0)], [(13, 40)]) == 20
    )  # told 2 ns before its call: off by at least these
    two_streams = [*MADE_UP, work("kernel", "aside", 180, 1, 7, stream=8)]
    assert kineto_gpu.put(two_streams, 7, 0, []).clock_error_ns is None
    whole = [*two_streams, call("cudaDeviceSynchronize", 190, 10, 8)]
    assert kineto_gpu.put(whole, 7, 0, []).clock_error_ns == 24_000


def test_what_runs_side_by_side_on_a_gpu_counts_once() -> None:
    """For the layer that began first: all together are no longer than the GPU worked."""
    works = [Work(0, 100, 0, 0), Work(50, 80, 0, 1), Work(90, 130, 0, 1), Work(120, 140, 0, None)]
    assert times_of(works, 3) == [100, 30, 0]


@pytest.mark.parametrize(("start_us", "alone_ns"), [(70, 20_000_000), (20, 19_960_000)])
def test_a_made_up_operator_on_the_cpu_has_its_own_time(start_us: int, alone_ns: int) -> None:
    """Non-maximum suppression of 20 ms on a CPU's tensors, after a product of 50 us on the GPU, or while that has 40 us
    to go: these are the product's."""
    events = [
        event("aten::mm", 0, 20),
        call("cudaLaunchKernel", 5, 5, 1),
        work("kernel", "gemm", 10, 50, 1),
        event("torchvision::nms", start_us, 20_000),
    ]
    layers = layers_of({"traceEvents": events}, 7, (), None, None, [])
    assert [layer["attributes"] for layer in layers] == [{GPU_NS: 50_000}, {ALONE_NS: alone_ns}]


def test_time_alone_is_outside_of_all_that_the_gpu_did_for_layers() -> None:
    """Of what ran from 0 to 100 the GPU worked for layers from 10 to 40 and from 60 to 70; what it did for none from 80
    to 90 is in no layer's time."""
    works = [
        Work(10, 30, 0, 0),
        Work(15, 20, 0, 0),
        Work(25, 40, 0, 1),
        Work(60, 70, 0, 1),
        Work(80, 90, 0, None),
    ]
    moments = [(0, 100), (0, 10), (12, 38), (35, 65), (75, 95)]
    assert alone_of(moments, works) == [60, 10, 0, 20, 20]
    assert alone_of([(5, 8)], []) == [3]


def test_a_made_up_run_without_a_word_of_the_gpu_is_lost(tmp_path: Path) -> None:
    """Its operators' times are those of asking for work: no layer of it is told, and why is said."""
    source = TorchProfiler(str(tmp_path / "x"))
    source._gpu = True
    thread = threading.get_native_id()
    silent = [event("aten::relu", 10, 5, tid=thread)]
    loud = [*silent, call("cudaLaunchKernel", 11, 2, 1, tid=thread), work("kernel", "relu", 14, 2, 1)]
    base = {"ph": "X", "cat": "cpu_op", "name": "aten::relu", "tid": thread}
    for at, events in enumerate((silent, loud)):
        later = [{**each, "ts": each["ts"] + time.time_ns() / 1e3} for each in events]
        source._profile = Profile(*later, {**base, "ts": time.time_ns() / 1e3 + 500, "dur": 1})
        source.stop(at + 1, at + 2)
    assert [layer["attributes"] for layer in source.spans(0, END)] == [{GPU_NS: 2_000}, {ALONE_NS: 1_000}]
    assert source.lost == 1 and "no kernel, copy or set" in source.why_lost
    assert source.gpu_clock_error_ns is None


def test_a_made_up_run_whose_work_another_thread_asked_for_is_lost() -> None:
    """None of the thread's operators has any of it: that each took nothing on the GPU is not known. It is counted."""
    events = [
        event("aten::relu", 10, 5),
        call("cudaLaunchKernel", 11, 2, 1, tid=8),
        work("kernel", "relu", 14, 50, 1),
    ]
    devices: list[OnGpu] = []
    layers_of({"traceEvents": events}, 7, (), None, None, devices)
    assert devices == [OnGpu(told=False, outside_ns=[50_000], clock_error_ns=None)]


def test_of_made_up_runs_each_is_lost_for_its_own_reason(tmp_path: Path) -> None:
    """One whose profile has no operator is not one of which the GPU's side alone is missing; both are said."""
    source = TorchProfiler(str(tmp_path / "x"))
    source._gpu = True
    silent = event("aten::relu", 10, 5, tid=threading.get_native_id())
    for at, events in enumerate(([], [silent])):
        source._profile = Profile(*events)
        source.stop(at + 1, at + 2)
    assert source.spans(0, 1) == [] and (source.lost, source.why_lost) == (1, NO_OPERATOR)
    assert source.spans(2, 2) == [] and (source.lost, source.why_lost) == (1, gpu_work.SILENT_GPU)
    assert source.spans(0, END) == [] and source.lost == 2
    assert source.why_lost == f"{NO_OPERATOR}; {gpu_work.SILENT_GPU}"


def test_without_a_gpu_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without a driver; a PyTorch for CPUs, which records the CPU's side alone if it is asked for the GPU."""
    monkeypatch.setattr(gpu_work, "_DRIVER", tmp_path / "none")
    for source in (TorchProfiler, OnnxRuntimeProfile):
        assert "takes a worker with a GPU" in (source.unavailable_on("gpu") or "")
        assert source.unavailable_on("cpu") is None
    (tmp_path / "none").write_text("NVRM version")
    monkeypatch.setattr(kineto_gpu, "version", lambda package: "2.13.0+cpu")
    assert "install a build for CUDA" in (TorchProfiler.unavailable_on("gpu") or "")
    monkeypatch.setattr(kineto_gpu, "version", lambda package: "2.13.0")
    assert TorchProfiler.unavailable_on("gpu") is None
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="can't tell of a GPU"):
            TorchProfiler(str(tmp_path / "x"), gpu=True)


def node(name: str, ts: int, dur: int, provider: str = "CUDAExecutionProvider") -> dict[str, Any]:
    """A node as ONNX Runtime's profile has it, us from its beginning."""
    args = {"op_name": "Conv", "provider": provider, "node_index": "0"}
    return {"cat": "Node", "ph": "X", "name": f"{name}_kernel_time", "ts": ts, "dur": dur, "args": args}


def kernel(name: str, ts: int, dur: int, parent: str | None) -> dict[str, Any]:
    """A kernel as a build with ``--enable_cuda_profiling`` writes it, by that runtime's source."""
    args = {"stream": "7", "grid_x": "16", "block_x": "128"} | (
        {} if parent is None else {"op_name": "Conv", "parent_name": parent}
    )
    return {"cat": "Kernel", "ph": "X", "name": name, "ts": ts, "dur": dur, "args": args}


def profiled(folder: Path, events: list[dict[str, Any]], *, library: bool) -> OnnxRuntimeProfile:
    """A source whose session ran twice and has these events."""
    source = OnnxRuntimeProfile(str(folder / "x"), SimpleNamespace(), library=library, gpu=True)
    path = folder / "profile.json"
    path.write_text(json.dumps(events))
    began_ns = time.time_ns()
    source.session = SimpleNamespace(
        get_profiling_start_time_ns=lambda: began_ns, end_profiling=lambda: str(path)
    )
    for start_ns in (1, 2):
        source.start()
        source.stop(start_ns, start_ns + 1)
    return source


def until(source: OnnxRuntimeProfile, us: float = 1_000) -> int:
    """The moment of so many us in its profile, CLOCK_MONOTONIC."""
    return int(source.session.get_profiling_start_time_ns()) - epoch_offset()["offset_ns"] + round(us * 1_000)


RUNS = [{"cat": "Session", "name": "model_run", "ts": ts, "dur": 90} for ts in (0, 100)]
NODES = [node("a", 10, 5), node("b", 16, 5), node("host", 22, 8, "CPUExecutionProvider"), node("a", 110, 5)]


def test_made_up_kernels_of_onnx_runtime_are_of_the_run_that_asked_for_them(tmp_path: Path) -> None:
    """Of a node's two runs each has the kernel that began before the next one, wherever in the file it stands; what ran
    on the CPU has its own time; what is of no node is counted."""
    kernels = [
        kernel("conv", 12, 40, "a_kernel_time"), kernel("pad", 60, 10, "b_kernel_time"), kernel("copy", 80, 3, None),
        kernel("conv", 112, 30, "a_kernel_time"),
    ]  # fmt: skip
    source = profiled(tmp_path, [*RUNS, *NODES, *kernels], library=True)
    layers = source.spans(0, until(source))
    assert [layer["attributes"].get(GPU_NS) for layer in layers] == [40_000, 10_000, None, 30_000]
    assert [[each["name"] for each in layer["inside"]] for layer in layers] == [
        ["conv"],
        ["pad"],
        [],
        ["conv"],
    ]
    first = layers[0]["inside"][0]
    assert (first["level"], first["end_ns"] - first["start_ns"]) == ("hardware", 40_000)
    assert first["attributes"] == {"library": "CUDA", "stream": 7, "grid_x": 16, "block_x": 128}
    assert source.lost == 0 and source.outside == {"primitives": 0, "ns": 0, "on_gpu": 1, "on_gpu_ns": 3_000}


def test_made_up_kernels_after_the_traced_requests_are_not_counted(tmp_path: Path) -> None:
    """Others ask later, whether the answers are still the model's: their kernels, nodes and runs are of no request."""
    kernels = [
        kernel("conv", 12, 40, "a_kernel_time"),
        kernel("copy", 80, 3, None),
        kernel("copy", 180, 5, None),
    ]
    source = profiled(tmp_path, [*RUNS, *NODES, *kernels], library=False)
    source.start()
    source.stop(later_ns := until(source, 100), later_ns + 1)
    assert [layer["name"] for layer in source.spans(0, until(source, 95))] == ["a", "b", "host"]
    assert source.outside == {"primitives": 0, "ns": 0, "on_gpu": 1, "on_gpu_ns": 3_000}
    assert source.lost == 1, "of the two traced runs the profile tells of one"


def test_a_made_up_loop_has_the_kernels_of_its_body(tmp_path: Path) -> None:
    """Only the outermost layers are added up: what its nodes asked for is in its time, and not in its neighbour's."""
    nodes = [
        node("x", 12, 3),
        node("y", 16, 3),
        node("loop", 10, 20, "CPUExecutionProvider"),
        node("z", 40, 5),
    ]
    kernels = [
        kernel(name, ts, dur, f"{name}_kernel_time")
        for name, ts, dur in (("x", 13, 6), ("y", 20, 5), ("z", 42, 7))
    ]
    source = profiled(tmp_path, [*RUNS, *nodes, *kernels], library=False)
    assert {layer["name"]: layer["attributes"][GPU_NS] for layer in source.spans(0, until(source))} == {
        "x": 6_000, "y": 5_000, "loop": 11_000, "z": 7_000,
    }  # fmt: skip


def test_a_made_up_loop_with_a_node_on_the_cpu_keeps_its_time(tmp_path: Path) -> None:
    """Of a loop of 100 ms 99 are its body's on the CPU and 10 us a kernel's: 99.01 ms, whoever runs the loop itself."""
    for provider in ("CPUExecutionProvider", "CUDAExecutionProvider"):
        nodes = [
            node("nms", 100, 99_000, "CPUExecutionProvider"), node("x", 99_200, 20), node("loop", 0, 100_000, provider),
        ]  # fmt: skip
        kernels = [kernel("k", 99_210, 10, "x_kernel_time")]
        source = profiled(tmp_path, [*RUNS, *nodes, *kernels], library=False)
        nms, x, loop = (layer["attributes"] for layer in source.spans(0, until(source, 200_000)))
        assert (nms.get(GPU_NS), nms[ALONE_NS]) == (None, 99_000_000)
        assert (x[GPU_NS], x.get(ALONE_NS)) == (10_000, None)
        assert loop[GPU_NS] + loop[ALONE_NS] == 99_010_000


def test_a_made_up_node_on_the_cpu_beside_the_gpu_counts_once(tmp_path: Path) -> None:
    """A convolution's kernel from 2 to 96 us, and a node on the CPU from 6 to 97: of this 1 us is left."""
    nodes = [node("conv", 1, 4), node("nms", 6, 91, "CPUExecutionProvider")]
    source = profiled(tmp_path, [*RUNS, *nodes, kernel("conv", 2, 94, "conv_kernel_time")], library=False)
    conv, nms = (layer["attributes"] for layer in source.spans(0, until(source)))
    assert (conv[GPU_NS], nms[ALONE_NS]) == (94_000, 1_000)


def test_a_made_up_node_of_no_time_is_none_of_its_neighbour(tmp_path: Path) -> None:
    """Asking for a kernel may take 0 us of the profile's clock: at the end of another node it lies not in this."""
    nodes = [node("a", 10, 3), node("b", 13, 0)]
    kernels = [kernel("short", 12, 4, "a_kernel_time"), kernel("long", 16, 500, "b_kernel_time")]
    source = profiled(tmp_path, [*RUNS, *nodes, *kernels], library=False)
    assert {layer["name"]: layer["attributes"][GPU_NS] for layer in source.spans(0, until(source))} == {
        "a": 4_000, "b": 500_000,
    }  # fmt: skip


@pytest.mark.parametrize("kernels", [[], [kernel("conv", 12, 40, None)]])
def test_an_onnx_runtime_that_names_no_kernel_tells_of_no_layer(
    tmp_path: Path, kernels: list[dict[str, Any]]
) -> None:
    """As its packages do: their nodes' times are those of asking the GPU, so all runs are lost, with the reason."""
    source = profiled(tmp_path, [*RUNS, *NODES, *kernels], library=False)
    assert source.spans(0, until(source)) == [] and source.lost == 2 and "no kernel" in source.why_lost


@pytest.mark.gpu
@pytest.mark.parametrize("engine", ["torchscript", "pt2"])
def test_on_a_gpu_every_layer_has_its_kernels(engine: str, tmp_path: Path) -> None:
    """A small network on a real GPU, in a process of its own: kernels begin after their calls and end within their
    runs, and all of them together take no longer than these; the clock is surer than what is tolerated."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("skipped: PyTorch sees no NVIDIA GPU here")
    process = subprocess.run(
        [sys.executable, "-m", "tests.traced_kernels", engine, str(tmp_path), "gpu"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    known = json.loads((tmp_path / "known.json").read_text())
    assert known["defects"] == 0 and 0 < known["clock"]["gpu_error_ns"] < TOLERANCE_NS
    spans = list(spans_of(pq.read_table(tmp_path / "spans.parquet")))
    by_place = {(span.trace_id, span.number): span for span in spans}
    on_gpu = [span for span in spans if span.level == "hardware"]
    assert {span.type for span in on_gpu} >= {"kernel", "copy"}
    assert all(by_place[span.trace_id, span.parent].type == "call" for span in on_gpu)
    kernels = kernels_of(with_library(spans), None)
    assert kernels is not None and {each.library for each in kernels.kernels} == {"CUDA"}
    layers_ms = sum(layer.ms for layer in kernels.layers)  # what the CPU did alone is in it, too
    assert kernels.ms * 0.99 <= layers_ms <= kernels.framework_ms
