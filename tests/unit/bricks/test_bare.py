"""A brick's network without weights, and with noise in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.bricks.bare import bare, with_noise
from inferbench_tasks.bricks.brick import Brick, cut
from inferbench_tasks.bricks.layers import LayerGraph, layer_graph
from inferbench_tasks.bricks.networks import network_feeds
from inferbench_tasks.bricks.own_texts import refuse_own_texts
from inferbench_tasks.bricks.runtimes.onnxruntime import open_network
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.errors import InputError
from tests.unit.bricks.graphs import IMAGE, image, residual, save, weight


def bricks_of(
    path: Path, feeds: Arrays, granularity: int | None = 1, view: str = "source"
) -> tuple[LayerGraph, list[Brick]]:
    graph = layer_graph(path, feeds, view, path.parent / f"{path.stem}-{view}")
    return graph, list(cut(graph, granularity))


def proto(model: ir.Model) -> Any:
    return onnx.load_from_string(ir.to_proto(model).SerializeToString())


def as_kept(model: ir.Model) -> ir.Model:
    """As it is read from its file."""
    read: ir.Model = ir.from_proto(proto(model))
    return read


def shapes(values: Any) -> dict[str, list[int]]:
    return {value.name: [d.dim_value for d in value.type.tensor_type.shape.dim] for value in values}


def test_it_has_no_weight_and_no_name_of_the_model_s(tmp_path: Path) -> None:
    """Weights are inputs with their shapes; of two models with other names and weights it is the same file."""
    made = []
    for seed in (0, 40):
        path = residual(tmp_path / f"{seed}.onnx", prefix="secret/", seed=seed)
        graph, bricks = bricks_of(path, image())
        made.append(bare(graph, bricks[0]))
    one, other = map(proto, made)
    assert shapes(one.graph.input) == {"x0": [1, 3, 8, 8], "w0": [4, 3, 3, 3]}
    assert shapes(one.graph.output) == {"y0": [1, 4, 8, 8]}
    assert not one.graph.initializer
    text = one.SerializeToString()
    assert text == other.SerializeToString() and b"secret" not in text and len(text) < 500


@pytest.mark.parametrize("view", ["source", "runtime"])
def test_with_noise_it_runs_and_has_the_key_that_it_was_made_of(tmp_path: Path, view: str) -> None:
    """Each of the model's bricks, by itself; in the view as converted it is cut into that brick again."""
    graph, bricks = bricks_of(residual(tmp_path / "m.onnx"), image(), 2, view)
    for index, brick in enumerate(bricks):
        made, path = as_kept(bare(graph, brick)), tmp_path / f"{index}.onnx"
        ir.save(with_noise(made, brick.key), path)
        feeds = network_feeds(graph, brick)
        answers = open_network(made).run(None, feeds)
        recorded = [graph.records[value.name or ""].shape for value in brick.outputs]
        assert [answer.shape for answer in answers] == recorded
        assert all(np.isfinite(answer).all() for answer in answers)
        if view == "source":
            onnx.checker.check_model(path, full_check=True)
            _, (again,) = bricks_of(path, feeds, None)
            assert again.key == brick.key


def test_noise_is_the_key_s(tmp_path: Path) -> None:
    """The same from whichever model; of another key another one; nothing of the model's own weights."""
    graph, (first, *_) = bricks_of(residual(tmp_path / "m.onnx"), image())

    def drawn(key: str) -> Any:
        return numpy_helper.to_array(proto(with_noise(bare(graph, first), key)).graph.initializer[0])

    one = drawn(first.key)
    assert (one == drawn(first.key)).all() and not (one == drawn("f" * 64)).any()
    assert not np.isin(one, weight(4, 3, 3, 3)).any() and 0.1 < one.std() < 0.3  # 27 products


def test_what_is_in_the_key_by_value_is_kept(tmp_path: Path) -> None:
    """A single number, integers, scales of a resizing, a mask; of a mask among other floats what is masked alone."""
    mask = np.triu(np.full((8, 8), -np.inf, np.float32), 1)
    biased = np.where(np.isneginf(mask), -np.inf, weight(8, 8)).astype(np.float32)
    constants = {
        "half": np.float32(0.5).reshape(1), "mask": mask, "biased": biased, "axes": np.array([0]),
        "scales": np.array([1, 1, 2, 2], np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("Mul", ["x", "half"], ["a"]),
        helper.make_node("Add", ["a", "mask"], ["b"]),
        helper.make_node("Add", ["b", "biased"], ["c"]),
        helper.make_node("Resize", ["c", "", "scales"], ["d"], mode="nearest"),
        helper.make_node("Unsqueeze", ["d", "axes"], ["y"]),
    ]
    graph, bricks = bricks_of(save(tmp_path / "m.onnx", nodes, constants, IMAGE), image())
    kept = [
        numpy_helper.to_array(proto(bare(graph, brick)).graph.initializer[0]).tolist() for brick in bricks
    ]
    assert kept[0] == [0.5] and kept[1] == mask.tolist() and kept[2] == mask.tolist()
    assert kept[3] == [1, 1, 2, 2] and kept[4] == [0]


def test_what_an_operator_with_scales_takes_beside_them_is_not_kept(tmp_path: Path) -> None:
    """The learned picture that positions are looked up in is in the key by value, and leaves no number."""
    node = helper.make_node("GridSample", ["table", "x"], ["y"])
    inputs = {"x": (TensorProto.FLOAT, ("batch", 8, 8, 2))}
    path = save(tmp_path / "m.onnx", [node], {"table": weight(1, 1, 9, 9)}, inputs)
    graph, (brick,) = bricks_of(path, {"x": weight(1, 8, 8, 2)})
    made = proto(bare(graph, brick))
    assert not made.graph.initializer and shapes(made.graph.input)["w0"] == [1, 1, 9, 9]


@pytest.mark.parametrize(("operator", "shape"), [("GridSample", (1, 8, 8, 2)), ("RoiAlign", (2, 4))])
def test_where_it_samples_and_its_boxes_are_not_kept(
    tmp_path: Path, operator: str, shape: tuple[int, ...]
) -> None:
    """A learned table of places, or boxes: an input with its shape; integers beside it are kept."""
    constants = {"places": np.abs(weight(*shape)), "images": np.zeros(2, np.int64)}
    if operator == "GridSample":
        del constants["images"]
    node = helper.make_node(operator, ["x", *constants], ["y"])
    graph, (brick,) = bricks_of(save(tmp_path / "m.onnx", [node], constants, IMAGE), image())
    made = proto(bare(graph, brick))
    [table] = [sizes for name, sizes in shapes(made.graph.input).items() if name[0] == "w"]
    assert table == list(shape)
    assert all(one.data_type == TensorProto.INT64 for one in made.graph.initializer)


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ([-1e4, 0.0, 0.0], [-1e4, 0, 0]),
        ([-1e4, 1.0, 0.0], [-1e4, 1, 0]),
        ([-7000.5, 0.123, 0.123], [-16384, 0, 0]),
        ([-7000.5, -60_000.25, 0.0], [-16384, -65536, 0]),
        ([-5001.0, 0.7, np.inf], [-16384, 0, np.inf]),
        ([np.finfo(np.float32).min, 0.5, 0.5], [-(4.0**63), 0, 0]),
    ],
)
def test_of_a_weight_with_numbers_as_low_as_a_mask_s_none_is_kept(
    tmp_path: Path, numbers: list[float], kept: list[float]
) -> None:
    """A mask of one number among zeros and ones is kept as it is; of others the power of four, which masks as well and
    stays finite."""
    constants = {"c": np.array(numbers, np.float32).reshape(3, 1, 1)}
    node = helper.make_node("Add", ["x", "c"], ["y"])
    graph, (brick,) = bricks_of(save(tmp_path / "m.onnx", [node], constants, IMAGE), image())
    [constant] = proto(bare(graph, brick)).graph.initializer
    assert numpy_helper.to_array(constant).reshape(-1).tolist() == kept


def test_weights_of_a_body_are_inputs_too(tmp_path: Path) -> None:
    """Both branches of an If: without their numbers, and with noise it runs."""
    branches = {}
    for name, seed in (("then_branch", 3), ("else_branch", 4)):
        out = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, ["batch", 3, "secret", 8])
        branches[name] = helper.make_graph(
            [helper.make_node("Mul", ["x", f"{name}_w"], [f"{name}_y"])], name, [], [out],
            [numpy_helper.from_array(weight(1, 3, 8, 8, seed=seed), f"{name}_w")],
        )  # fmt: skip
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"zero": np.zeros((), np.float32)}, IMAGE)
    graph, (*_, brick) = bricks_of(path, image())
    model = as_kept(bare(graph, brick))
    made = proto(model)
    assert b"secret" not in made.SerializeToString()
    assert not any(attribute.g.initializer for attribute in made.graph.node[0].attribute)
    assert sorted(name for name in shapes(made.graph.input) if name[0] == "w") == ["w0", "w1"]
    [answer] = open_network(with_noise(model, brick.key)).run(None, network_feeds(graph, brick))
    assert answer.shape == (1, 3, 8, 8) and answer.any()


def test_a_variance_is_above_zero(tmp_path: Path) -> None:
    """Else a batch normalisation answers NaN."""
    names = ("scale", "bias", "mean", "variance")
    constants = {name: np.abs(weight(3, seed=at)) for at, name in enumerate(names)}
    node = helper.make_node("BatchNormalization", ["x", *names], ["y"])
    graph, (brick,) = bricks_of(save(tmp_path / "m.onnx", [node], constants, IMAGE), image())
    [answer] = open_network(with_noise(bare(graph, brick), brick.key)).run(None, network_feeds(graph, brick))
    assert np.isfinite(answer).all()


def test_a_layer_with_numbers_of_its_own_has_none(tmp_path: Path) -> None:
    """A list among its attributes that is no setting, or a text: InputError, and nothing of it is kept."""
    node = helper.make_node("LpNormalization", ["x"], ["y"])
    graph, (brick,) = bricks_of(save(tmp_path / "m.onnx", [node], {}, IMAGE), image())
    attributes = brick.layers[0].node.attributes
    attributes["own"] = ir.AttrFloat32s("own", [0.5] * 17)
    with pytest.raises(InputError, match="LpNormalization has the model's own numbers"):
        bare(graph, brick)
    attributes["own"] = ir.AttrString("own", "secret")
    with pytest.raises(InputError, match="a text in its attributes"):
        bare(graph, brick)


@pytest.mark.parametrize(
    ("domain", "attribute", "own"),
    [
        ("", ir.AttrString("mode", "linear"), False),
        ("com.microsoft", ir.AttrString("activation", "Relu"), False),
        ("", ir.AttrStrings("activations", ["Tanh"]), False),
        ("", ir.AttrInt64("axis", 1), False),
        ("somebody's", ir.AttrInt64("axis", 1), False),
        ("somebody's", ir.AttrString("mode", "secret"), True),
        ("", ir.AttrString("pattern", "secret"), True),
        ("", ir.AttrStrings("stopwords", ["secret"]), True),
        ("", ir.AttrTensor("value", ir.tensor(["secret"])), True),
    ],
)
def test_texts_are_a_model_s_own_unless_they_are_known_settings(
    domain: str, attribute: ir.Attr, own: bool
) -> None:
    """Those of ONNX's and the runtime's operators that are one of a few words."""
    node = ir.Node(domain, "Any", [], [attribute])
    if not own:
        refuse_own_texts(node)
        return
    with pytest.raises(InputError, match="the model's own") as refused:
        refuse_own_texts(node)
    assert "secret" not in str(refused.value)
