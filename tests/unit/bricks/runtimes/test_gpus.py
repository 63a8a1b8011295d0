"""Runtimes of GPUs: what can be said without one, and what has to hold on one (marker ``gpu``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.brick_jobs.answer import device_ms
from inferbench_tasks.brick_jobs.cutting import CutModel
from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.chain import prove
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.bricks.measure.bound import BoundNetwork
from inferbench_tasks.bricks.measure.method import DEVICE, Method, Setting
from inferbench_tasks.bricks.measure.networks import brick_item, timed_as, whole_item
from inferbench_tasks.bricks.measure.session import run_session, setting
from inferbench_tasks.bricks.results import Result
from inferbench_tasks.bricks.runtimes import device_problem, runtime_of, runtimes_of
from inferbench_tasks.contracts.device import DeviceSpec
from inferbench_tasks.errors import InputError
from tests.unit.bricks.graphs import image, residual

NAMES = ("onnxruntime-cuda", "onnxruntime-tensorrt")


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def on_gpu(name: str) -> str:
    """A runtime that can be used here."""
    if (why := runtime_of(name).unavailable()) is not None:
        pytest.skip(f"skipped: {why}")
    return name


def test_without_a_gpu_it_is_refused_with_what_helps(name: str) -> None:
    """Before anything is opened: which package, on which machine."""
    why = runtime_of(name).unavailable()
    if why is None:
        pytest.skip("skipped: there is a GPU here")
    assert any(remedy in why for remedy in ("onnxruntime-gpu", "inferbench[gpu]", "pip install tensorrt"))
    with pytest.raises(InputError, match=f"{name} can't be used here: "):
        setting([0], 1, name)


def test_a_runtime_is_of_one_kind_of_device() -> None:
    """Another kind, cores and types of GPUs are refused, and the runtimes of the kind are named."""
    assert runtimes_of("gpu") == list(NAMES) and runtimes_of("cpu") == ["onnxruntime", "openvino"]
    host, cuda = runtime_of("onnxruntime"), runtime_of("onnxruntime-cuda")
    assert device_problem(host, DeviceSpec("cpu")) is None
    said = {
        (
            host,
            "gpu",
        ): "measured on cpu by the runtime onnxruntime; got 'gpu'; runtimes of gpu: onnxruntime-cuda, ",
        (host, "cpu:0-3"): "bricks are measured on cpu; got 'cpu:0-3'",
        (
            cuda,
            "cpu",
        ): "measured on gpu by the runtime onnxruntime-cuda; got 'cpu'; runtimes of cpu: onnxruntime, ",
        (
            cuda,
            "gpu:t4",
        ): "measured on gpu or gpu:0, the first that CUDA_VISIBLE_DEVICES leaves; got 'gpu:t4'",
    }
    for (runtime, device), text in said.items():
        assert text in str(device_problem(runtime, DeviceSpec(device))), device
    for device in ("gpu", "gpu:0"):
        assert device_problem(cuda, DeviceSpec(device)) == cuda.unavailable()


def test_bricks_of_a_gpu_have_keys_of_their_own_and_no_layouts_of_a_processor(tmp_path: Path) -> None:
    """They are cut without one, with fusions (no Relu is alone), and chained they are the model."""
    path = residual(tmp_path / "m.onnx")
    graphs = {
        name: layer_graph(path, image(), "runtime", tmp_path / name, name)
        for name in ("onnxruntime", NAMES[0])
    }
    graph = graphs[NAMES[0]]
    bricks = list(cut(graph, 1))
    assert graph.instruction_set == "cuda" and graphs["onnxruntime"].instruction_set != "cuda"
    assert not {brick.key for brick in bricks} & {brick.key for brick in cut(graphs["onnxruntime"], 1)}
    operators = [layer.operator for layer in graph.layers]
    assert "Relu" not in operators and not any("nchwc" in operator for operator in operators)
    answer = runtime_of("onnxruntime").open(path, image(), threads=1, whole=True).answers(image())
    answers = dict(zip(graph.outputs, answer, strict=True))
    assert prove(graph, bricks, image(), answers, tmp_path / NAMES[0]).holds


def test_what_the_gpu_itself_takes_is_the_sum_over_the_bricks_or_nothing() -> None:
    """a a b: 2 x 0.1 + 0.3 ms of the device; of one brick without such a time there is none of the model."""
    here = Setting(processor="GPU", instruction_set="cuda", cores=1, threads=1, runtime=f"{NAMES[0]} 1")

    def result(identity: str, ms: float, *states: str) -> Result:
        return Result(
            identity=identity, key=identity, operators=("Op",), setting=here, session="s", method=Method(),
            rounds_ns=dict.fromkeys(states, (ms * 1e6,) * 3), raw_ns={},
        )  # fmt: skip

    one = CutModel(
        at=0, name="m", copies=1, task=None, digest="d", batch_size=1, granularity="1", layers=3, operators=("Op",) * 3,
        whole="whole-m", parts=("a", "a", "b"), needs=((), (0,), (1,)),
    )  # fmt: skip
    known = {"a": result("a", 0.1, "warm", DEVICE), "b": result("b", 0.3, "warm", DEVICE)}
    assert device_ms(one, known) == pytest.approx(0.5)
    assert device_ms(one, known | {"b": result("b", 0.3, "warm")}) is None


@pytest.mark.gpu
def test_what_lies_on_the_device_is_what_it_computes_with(on_gpu: str, tmp_path: Path) -> None:
    """Each brick's bound outputs are the host's answer, to TF32; warm and streamed runs have times, and the device is
    not busy for longer than the wall says."""
    path = residual(tmp_path / "m.onnx")
    graph = layer_graph(path, image(), "runtime", tmp_path / "view", on_gpu)
    for brick in cut(graph, 1):
        item = brick_item(graph, brick, tmp_path)
        with np.load(item.feeds) as file:
            feeds = {name: file[name] for name in file.files}
        expected = runtime_of("onnxruntime").open(item.path, feeds, threads=1, whole=False).answers(feeds)
        loaded = runtime_of(on_gpu).open(item.path, feeds, threads=1, whole=False)
        assert loaded.bind(feeds, expected, ()) is None
        loaded.run()
        for bound, answer in zip(loaded.bound_answers(), expected, strict=True):  # type: ignore[attr-defined]
            assert np.allclose(bound, answer, rtol=1e-2, atol=1e-2)
        network = BoundNetwork(item.path, feeds, threads=1, whole=False, onto=item.onto, runtime=on_gpu)
        warm = network.warm_ns(5, 0.1)
        assert len(warm) == 5 == len(network.streamed_ns(5, 0.1, np.ones(8))) and min(warm) > 0
        if network.device_ns:
            assert all(0 < own <= 1.1 * wall for own, wall in zip(network.device_ns, warm, strict=True))


@pytest.mark.gpu
def test_a_session_on_a_gpu_times_bricks_wholes_and_references(on_gpu: str, tmp_path: Path) -> None:
    """In a process of its own inside the sandbox; the setting names the GPU."""
    path = residual(tmp_path / "m.onnx")
    graph = layer_graph(path, image(), "runtime", tmp_path / "view", on_gpu)
    networks, work = tmp_path / "networks", tmp_path / "work"
    networks.mkdir()
    work.mkdir()
    brick = next(cut(graph, 1))
    items = [brick_item(graph, brick, networks), whole_item("whole-m", path, image(), networks)]
    session = run_session(items, work, Method(runs=15, budget_s=0.05), threads=1, runtime=on_gpu)
    assert set(session.timed) == {timed_as(graph, brick), "whole-m"}
    here = setting([0], 1, on_gpu)
    assert here.instruction_set == "cuda" and here.processor and here.runtime_name == on_gpu
