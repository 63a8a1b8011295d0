"""Networks of bricks: they check, load and run by themselves, and chained they are the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.bricks.brick import Brick, cut
from inferbench_tasks.bricks.chain import prove
from inferbench_tasks.bricks.layers import LayerGraph, layer_graph
from inferbench_tasks.bricks.networks import network, network_feeds
from inferbench_tasks.bricks.runtimes.onnxruntime import open_network
from inferbench_tasks.bricks.saving import save_network
from inferbench_tasks.bricks.views import VIEWS
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.onnx import open_session
from tests.unit.bricks.graphs import IMAGE, image, residual, save, weight
from tests.unit.bricks.zoo import export_network


def cut_model(
    path: Path, feeds: Arrays, view: str, granularity: int | None
) -> tuple[LayerGraph, list[Brick]]:
    graph = layer_graph(path, feeds, view, path.parent / view)
    return graph, list(cut(graph, granularity))


def assert_proved(path: Path, feeds: Arrays, view: str, granularity: int | None) -> None:
    graph, bricks = cut_model(path, feeds, view, granularity)
    session = open_session(path)
    names = [output.name for output in session.get_outputs()]
    answer = dict(zip(names, session.run(names, feeds), strict=True))
    proof = prove(graph, bricks, feeds, answer, path.parent / view)
    assert proof.edges >= len(bricks)
    assert proof.holds, proof


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("granularity", [1, 2, 3, None])
def test_chained_bricks_are_the_model(tmp_path: Path, view: str, granularity: int | None) -> None:
    """Each tensor between two bricks, and the answer, is what the whole gives."""
    assert_proved(residual(tmp_path / "m.onnx"), image(), view, granularity)


@pytest.fixture(scope="module", params=["mobilenet_v2", "lstm", "bert-base"])
def zoo_model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Arrays]:
    """A network of the zoo as ONNX, with random weights and inputs."""
    pytest.importorskip("torch")
    return export_network(request.param, tmp_path_factory.mktemp(request.param))


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.filterwarnings("ignore")  # the exporter warns within itself
def test_chained_bricks_are_the_zoo_s_models(zoo_model: tuple[Path, Arrays], view: str) -> None:
    """Convolutions, recurrent cells and attention with a mask, in every view; batch 1, one and three layers a brick."""
    path, feeds = zoo_model
    assert_proved(path, feeds, view, 1)
    assert_proved(path, feeds, view, 3)


@pytest.mark.parametrize("view", ["source", "runtime"])
def test_each_network_checks_loads_and_runs_by_itself(tmp_path: Path, view: str) -> None:
    """From its file alone, on inputs like the recorded ones, to finite answers of the recorded shapes."""
    graph, bricks = cut_model(residual(tmp_path / "m.onnx"), image(), view, 2)
    for index, brick in enumerate(bricks):
        path = save_network(network(graph, brick), tmp_path / f"{index}.onnx")
        if view == "source":  # the checker does not know the runtime's own operators
            onnx.checker.check_model(path, full_check=True)
        session = open_session(path, optimise=False)
        answers = session.run(None, network_feeds(graph, brick))
        shapes = [graph.records[value.name or ""].shape for value in brick.outputs]
        assert [answer.shape for answer in answers] == shapes
        assert all(np.isfinite(answer).all() for answer in answers)


def test_weights_are_noise_of_the_brick_s_own_seed(tmp_path: Path) -> None:
    """Bricks of one key are one file, from whichever model, and no value of the original is in it."""
    networks = []
    for seed in (0, 40):
        path = residual(tmp_path / f"{seed}.onnx", prefix="secret/", seed=seed)
        graph, bricks = cut_model(path, image(), "source", 1)
        networks.append(network(graph, bricks[1]))
    one, other = (
        {t.name: numpy_helper.to_array(t) for t in ir.to_proto(n).graph.initializer} for n in networks
    )
    assert one.keys() == other.keys() == {"w0"}
    assert not np.isin(one["w0"], weight(4, 4, 3, 3, seed=1)).any()
    assert one["w0"].std() == pytest.approx(weight(4, 4, 3, 3, seed=1).std(), rel=0.3)
    assert b"secret" not in ir.to_proto(networks[0]).SerializeToString()


def test_integers_are_fed_as_recorded_and_masks_stay(tmp_path: Path) -> None:
    """Indices are those of the run; what was masked, zero or within a range is so again."""
    scores = weight(1, 3, 8, 8)
    scores[..., 5:] = -np.inf
    scores[:, 0, :, :2] = 0.0
    path = save(tmp_path / "m.onnx", [helper.make_node("Softmax", ["x"], ["y"])], {}, IMAGE)
    graph, (brick,) = cut_model(path, {"x": scores}, "source", 1)
    values = network_feeds(graph, brick)["x0"]
    assert (np.isneginf(values) == np.isneginf(scores)).all()
    ordinary, recorded = values[..., :5], scores[..., :5]
    assert recorded.min() <= ordinary.min() and ordinary.max() <= recorded.max()
    assert np.mean(ordinary == 0) == pytest.approx(np.mean(recorded == 0), abs=0.1)
    node = helper.make_node("Gather", ["w", "x"], ["y"])
    path = save(tmp_path / "g.onnx", [node], {"w": weight(50, 4)}, {"x": (TensorProto.INT64, ("n", 4))})
    graph, (brick,) = cut_model(path, {"x": np.array([[1, 49, 7, 7]])}, "source", 1)
    assert network_feeds(graph, brick)["x0"].tolist() == [[1, 49, 7, 7]]


def test_scales_and_masks_among_the_constants_are_kept(tmp_path: Path) -> None:
    """They are no weights: a Resize by noise would have another size, a mask of noise would mask nothing."""
    mask = np.triu(np.full((8, 8), -np.inf, np.float32), 1)
    scales = np.array([1, 1, 2, 2], np.float32)
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("Resize", ["b", "", "scales"], ["y"], mode="nearest"),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"mask": mask, "scales": scales}, IMAGE)
    graph, (masked, softmax, resized) = cut_model(path, image(), "source", 1)
    for brick, constant in ((masked, mask), (resized, scales)):
        (tensor,) = ir.to_proto(network(graph, brick)).graph.initializer
        assert np.array_equal(numpy_helper.to_array(tensor), constant)
    assert np.isneginf(network_feeds(graph, softmax)["x0"]).sum() == 3 * 28
    (answer,) = open_network(network(graph, resized)).run(None, network_feeds(graph, resized))
    assert answer.shape == (1, 3, 16, 16)


@pytest.mark.parametrize("view", ["source", "runtime"])
def test_quantised_weights_are_weights(tmp_path: Path, view: str) -> None:
    """An int8 model's bricks are the model, other weights make no other key, and theirs are drawn anew."""
    keys = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        constants: dict[str, Any] = {
            "w": rng.integers(-127, 127, (4, 3, 3, 3)).astype(np.int8),
            "b": rng.integers(-500, 500, 4).astype(np.int32),
            "s": np.float32(0.05),
            "z": np.uint8(128),
            "ws": rng.uniform(0.01, 0.02, 4).astype(np.float32),
            "wz": np.zeros(4, np.int8),
        }
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "s", "z", "b"], ["c"]),
            helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"]),
        ]
        path = save(tmp_path / f"{seed}.onnx", nodes, constants, IMAGE)
        graph, bricks = cut_model(path, image(), view, 1)
        keys.append([brick.key for brick in bricks])
        assert_proved(path, image(), view, 1)
        (conv,) = (brick for brick in bricks if brick.operators[0].endswith("QLinearConv"))
        tensors = {
            t.name: numpy_helper.to_array(t) for t in ir.to_proto(network(graph, conv)).graph.initializer
        }
        assert not any(np.array_equal(array, constants["w"]) for array in tensors.values())
        open_network(network(graph, conv)).run(None, network_feeds(graph, conv))
    assert keys[0] == keys[1]


def loop(path: Path) -> Path:
    """y = a Loop of three steps that adds a captured tensor and multiplies by a captured weight."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "captured"], ["sum"]),
            helper.make_node("MatMul", ["sum", "w"], ["next"]),
            helper.make_node("Identity", ["go"], ["more"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        helper.make_node("Constant", [], ["n"], value=helper.make_tensor("n", TensorProto.INT64, [], [3])),
        helper.make_node("Relu", ["x"], ["captured"]),
        helper.make_node("Tanh", ["x"], ["start"]),
        helper.make_node("Loop", ["n", "", "start"], ["looped"], body=body),
        helper.make_node("Relu", ["looped"], ["y"]),
    ]
    return save(path, nodes, {"w": weight(4, 4) / 4}, {"x": (TensorProto.FLOAT, ("n", 4))})


@pytest.mark.parametrize("granularity", [1, 2, None])
def test_a_body_stays_one_layer_with_what_it_takes_from_outside(
    tmp_path: Path, granularity: int | None
) -> None:
    """A Loop is fed with its state and with the tensor that its body captures; a captured weight is inside."""
    feeds = {"x": weight(1, 4, seed=3)}
    path = loop(tmp_path / "m.onnx")
    assert_proved(path, feeds, "source", granularity)
    graph, bricks = cut_model(path, feeds, "source", 1)
    (looped,) = (brick for brick in bricks if brick.operators == ("Loop",))
    assert {value.name for value in looped.inputs} == {"start", "captured"}
    assert sum(len(brick.layers) for brick in bricks) == 4
    open_network(network(graph, looped)).run(None, network_feeds(graph, looped))


def test_weights_outside_of_the_file_are_read(tmp_path: Path) -> None:
    """As large models keep them."""
    path = residual(tmp_path / "m.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert (tmp_path / "w.bin").is_file()
    assert_proved(path, image(), "runtime", 1)


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "shapes: the input x has no value"),
        ({"x": weight(1, 3, 8, 9)}, r"shapes: the input x takes \[batch, 3, 8, 8\], not \[1, 3, 8, 9\]"),
        ({"x": weight(3, 8, 8)}, "shapes: the input x takes"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path: Path, feeds: Arrays, message: str) -> None:
    """Before anything runs, with what the model takes."""
    with pytest.raises(InputError, match=message):
        layer_graph(residual(tmp_path / "m.onnx"), feeds, "source", tmp_path / "view")


def test_a_fixed_batch_is_named(tmp_path: Path) -> None:
    """Another batch size than the model's own can't be had."""
    node = helper.make_node("Relu", ["x"], ["y"])
    path = save(tmp_path / "m.onnx", [node], {}, {"x": (TensorProto.FLOAT, (1, 4))})
    with pytest.raises(
        InputError, match=r"batch_size: the input x takes \[1, 4\], not \[2, 4\]; its batch is fixed"
    ):
        layer_graph(path, {"x": weight(2, 4)}, "source", tmp_path / "view")


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    """A broken file, and a view that there is not."""
    (tmp_path / "m.onnx").write_bytes(b"no model")
    with pytest.raises(InputError, match="is no ONNX model that can be read"):
        layer_graph(tmp_path / "m.onnx", {}, "source", tmp_path / "view")
    with pytest.raises(InputError, match="known: runtime, portable, source"):
        layer_graph(tmp_path / "m.onnx", {}, "fast", tmp_path / "view")
