"""Every runtime of bricks: how it cuts models, that its bricks are the model, and that they can be timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks.bricks.brick import Brick, cut
from inferbench_tasks.bricks.chain import prove
from inferbench_tasks.bricks.layers import LayerGraph, layer_graph
from inferbench_tasks.bricks.measure.bound import BoundNetwork, output_name
from inferbench_tasks.bricks.measure.method import Method
from inferbench_tasks.bricks.measure.networks import brick_item, needs_of, timed_as, whole_item
from inferbench_tasks.bricks.measure.session import run_session, setting
from inferbench_tasks.bricks.runtimes import RUNTIMES, runtime_of
from inferbench_tasks.bricks.runtimes.base import BrickRuntime
from inferbench_tasks.bricks.views import VIEWS
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError, MissingExtraError
from tests.unit.bricks.graphs import image, residual, save, weight
from tests.unit.bricks.zoo import NETWORKS, export_network

# The exporter warns within itself.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module", params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> BrickRuntime:
    found = runtime_of(request.param)
    try:
        found.require()
    except (MissingExtraError, InputError) as error:  # a part of InferBench, or a GPU
        pytest.skip(f"skipped: {error}")
    return found


#: The largest are of convolutions, which the small ones have too.
LARGE = ("mobilenet_v2", "resnet18")


def each_pair() -> list[Any]:
    """Runtime and network; of the large ones `make test` has the first runtime's first."""
    found = []
    for runtime in RUNTIMES:
        for network in (*NETWORKS, "residual"):
            usual = network not in LARGE or (runtime, network) == ("onnxruntime", LARGE[0])
            marks = [] if usual else [pytest.mark.long]
            found.append(pytest.param(runtime, network, marks=marks, id=f"{runtime}-{network}"))
    return found


@pytest.fixture(scope="module")
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Arrays]:
    """A network with random weights, and its inputs."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "residual":
        return residual(folder / "m.onnx"), image()
    pytest.importorskip("torch")
    return export_network(request.param, folder)


def assert_cut(graph: LayerGraph, bricks: list[Brick]) -> None:
    """Every layer is in exactly one brick, and each brick has what it takes from those before it."""
    assert [layer for brick in bricks for layer in brick.layers] == list(graph.layers)
    assert len({id(layer.node) for layer in graph.layers}) == len(graph.layers)
    for at, before in enumerate(needs_of(bricks)):
        assert all(position < at for position in before)


@pytest.mark.parametrize(("runtime", "model"), each_pair(), indirect=True)
def test_each_layer_is_in_one_brick_and_chained_they_are_the_model(
    runtime: BrickRuntime, model: tuple[Path, Arrays], tmp_path: Path
) -> None:
    """At one and three executed layers and as a whole: each tensor between bricks, and the answer that the runtime
    gives of the model as it is served; both to 1e-4."""
    path, feeds = model
    if runtime.device == "gpu":
        pytest.skip("skipped: a GPU rounds to TF32; see tests/unit/bricks/runtimes/test_gpus.py")
    graph = layer_graph(path, feeds, "runtime", tmp_path, runtime.name)
    answers = runtime.open(path, feeds, threads=1, whole=True).answers(feeds)
    answer = dict(zip(graph.outputs, answers, strict=True))
    for granularity in (1, min(3, len(graph.executed)), None):
        bricks = list(cut(graph, granularity))
        assert_cut(graph, bricks)
        proof = prove(graph, bricks, feeds, answer, tmp_path)
        assert proof.holds, (granularity, proof)


def test_what_is_fused_is_no_brick(runtime: BrickRuntime, tmp_path: Path) -> None:
    """A view of what is executed has the runtime's fusions: a Relu after a Conv is in none of its bricks alone, as it
    is in the layers as converted."""
    path, alone = residual(tmp_path / "m.onnx"), {}
    for view in ("runtime", "source"):
        graph = layer_graph(path, image(), view, tmp_path / view, runtime.name)
        alone[view] = [brick.operators for brick in cut(graph, 1)].count(("Relu",))
    assert alone == {"runtime": 0, "source": 2}


def test_the_same_model_has_the_same_keys(runtime: BrickRuntime, tmp_path: Path) -> None:
    """Under other names and with other weights, in another process' folder: nothing is measured twice."""
    keys = []
    for seed in (0, 40):
        path = residual(tmp_path / f"{seed}.onnx", prefix=f"n{seed}/", seed=seed)
        graph = layer_graph(path, image(), "runtime", tmp_path / str(seed), runtime.name)
        keys.append([(brick.key, brick.identity) for brick in cut(graph, 1)])
    assert keys[0] == keys[1]


def test_a_network_in_place_gives_its_answer_and_its_times(runtime: BrickRuntime, tmp_path: Path) -> None:
    """What is bound is what it runs on: its output is the answer, of other numbers put there another one."""
    if runtime.device == "gpu":
        pytest.skip(
            "skipped: what lies on a GPU is no array here; see tests/unit/bricks/runtimes/test_gpus.py"
        )
    path = residual(tmp_path / "m.onnx")
    graph = layer_graph(path, image(), "runtime", tmp_path / "view", runtime.name)
    for index, brick in enumerate(cut(graph, 1)):
        item = brick_item(graph, brick, tmp_path)
        with np.load(item.feeds) as file:
            feeds = {name: file[name] for name in file.files}
        network = BoundNetwork(item.path, feeds, threads=1, whole=False, onto=(), runtime=runtime.name)
        expected = runtime.open(item.path, feeds, threads=1, whole=False).answers(feeds)
        assert len(network.warm_ns(5, 0.1)) == 5 == len(network.streamed_ns(5, 0.1, np.ones(8)))
        assert np.allclose(network.numbers(output_name(0)), expected[0], rtol=1e-5, atol=1e-6), index
        network.numbers("x0")[...] = 0
        network.warm_ns(5, 0.1)
        feeds["x0"] = np.zeros_like(feeds["x0"])
        expected = runtime.open(item.path, feeds, threads=1, whole=False).answers(feeds)
        assert np.allclose(network.numbers(output_name(0)), expected[0], rtol=1e-5, atol=1e-6), index


def test_whole_models_bricks_and_references_are_timed_by_it(runtime: BrickRuntime, tmp_path: Path) -> None:
    """In a process of its own inside the sandbox, beside the references."""
    path = residual(tmp_path / "m.onnx")
    graph = layer_graph(path, image(), "runtime", tmp_path / "view", runtime.name)
    networks, work = tmp_path / "networks", tmp_path / "work"
    networks.mkdir()
    work.mkdir()
    brick = next(cut(graph, 1))
    items = [brick_item(graph, brick, networks), whole_item("whole-m", path, image(), networks)]
    method = Method(runs=15, budget_s=0.05)
    session = run_session(items, work, method, threads=1, runtime=runtime.name)
    assert set(session.timed) == {timed_as(graph, brick), "whole-m"}
    assert all(ns > 0 for one in session.timed.values() for times in one.rounds_ns.values() for ns in times)
    assert set(session.timed["whole-m"].rounds_ns) == {"warm"} and len(session.references_ns) == 4
    for name, one in session.timed.items():  # loading and first runs are in what it took of the device
        assert (
            session.taken_s[name] > sum(sum(runs) for rounds in one.raw_ns.values() for runs in rounds) / 1e9
        )


def test_a_round_ends_once_its_means_are_known(runtime: BrickRuntime, tmp_path: Path) -> None:
    """Within a fifth, which five or ten runs of a hundred tell."""
    path = residual(tmp_path / "m.onnx")
    networks, work = tmp_path / "networks", tmp_path / "work"
    networks.mkdir()
    work.mkdir()
    items = [whole_item("whole-m", path, image(), networks)]
    method = Method(runs=300, within_ratio=0.2)
    session = run_session(items, work, method, threads=1, runtime=runtime.name)
    assert all(5 <= len(runs) < 100 for runs in session.timed["whole-m"].raw_ns["warm"])


def test_it_says_what_it_is(runtime: BrickRuntime) -> None:
    """Name and version, which results are told apart by; views and precisions that there are."""
    here = setting([0], 1, runtime.name)
    assert here.runtime == runtime.full_name() and here.runtime_name == runtime.name
    assert runtime.version() and runtime.full_name().isprintable()
    assert "runtime" in runtime.views and set(runtime.views) <= set(VIEWS)
    assert "fp32" in runtime.precisions


def test_what_it_has_not_is_refused(runtime: BrickRuntime, tmp_path: Path) -> None:
    """Another view, and a model that is none of its: before anything is timed, by names."""
    path, feeds = residual(tmp_path / "m.onnx"), image()
    for view in set(VIEWS) - set(runtime.views):
        with pytest.raises(InputError, match=f"no view '{view}' of a model; it has: runtime"):
            layer_graph(path, feeds, view, tmp_path / view, runtime.name)
    from onnx import TensorProto, helper

    strange = save(
        tmp_path / "s.onnx", [helper.make_node("Strange", ["x"], ["y"], domain="no.such")], {},
        {"x": (TensorProto.FLOAT, (1, 4))},
    )  # fmt: skip
    with pytest.raises(InputError):
        layer_graph(strange, {"x": weight(1, 4)}, "runtime", tmp_path / "strange", runtime.name)
