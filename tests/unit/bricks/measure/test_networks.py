"""Bricks as they are timed: what they add onto, and who needs whom."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from inferbench_tasks.bricks.brick import cut
from inferbench_tasks.bricks.layers import LayerGraph, layer_graph
from inferbench_tasks.bricks.measure.bound import BoundNetwork, aligned, output_name
from inferbench_tasks.bricks.measure.child import Item
from inferbench_tasks.bricks.measure.networks import brick_item, needs_of, timed_as
from tests.unit.bricks.graphs import image, residual, save, weight


def test_a_convolution_that_adds_writes_onto_what_it_adds_to(tmp_path: Path) -> None:
    """Each block of the residual network ends in one, no other brick does; run again and again it goes on adding."""
    graph = layer_graph(residual(tmp_path / "model.onnx"), image(), "runtime", tmp_path / "view")
    bricks = list(cut(graph, 1))
    items = [brick_item(graph, brick, tmp_path) for brick in bricks]
    adding = [item for item, brick in zip(items, bricks, strict=True) if len(brick.inputs) == 2]
    assert len(adding) == 2 and all(len(item.onto) == 1 for item in adding)
    assert all(not item.onto for item in items if item not in adding)
    item = adding[0]
    feeds = feeds_of(item)
    _, onto = item.onto[0]
    network = BoundNetwork(item.path, feeds, threads=1, whole=False, onto=item.onto)
    assert all(time > 0 for time in network.warm_ns(5, 1.0))
    assert not np.array_equal(network.numbers(f"x{onto}"), feeds[f"x{onto}"])


def sums(path: Path, takes: Sequence[str], given: str) -> LayerGraph:
    """x > Conv > a > FusedConv onto ``given`` > s, c = Relu(x); the answers are s and the sine of each of ``takes``."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["x"], ["c"]),
    ]
    fused: dict[str, Any] = {"domain": "com.microsoft", "activation": "Relu", "pads": [1, 1, 1, 1]}
    nodes += [helper.make_node("FusedConv", ["a", "w", "", given], ["s"], **fused)]
    nodes += [helper.make_node("Sin", [name], [f"of-{name}"]) for name in takes]
    inputs = {"x": (TensorProto.FLOAT, (1, 3, 8, 8))}
    save(path, nodes, {"w": weight(3, 3, 3, 3)}, inputs, ["s", *(f"of-{name}" for name in takes)])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)
    return layer_graph(path, image(), "source", path.with_suffix(".view"))


def test_a_sum_that_the_model_copies_is_another_measurement(tmp_path: Path) -> None:
    """One that is taken again afterwards, and one that is the caller's own input, are copied by the model as well."""
    found = {}
    for name, takes, given in (("onto", (), "c"), ("kept", ("c",), "c"), ("caller's", (), "x")):
        graph = sums(tmp_path / f"{name}.onnx", takes, given)
        [brick] = [one for one in cut(graph, 1) if len(one.inputs) == 2]
        found[name] = (brick.identity, timed_as(graph, brick), len(brick_item(graph, brick, tmp_path).onto))
    assert len({identity for identity, _, _ in found.values()}) == 1
    assert {name: (timed == identity, onto) for name, (identity, timed, onto) in found.items()} == {
        "onto": (True, 1),
        "kept": (False, 0),
        "caller's": (False, 0),
    }


def test_buffers_begin_where_the_runtime_s_do(tmp_path: Path) -> None:
    """Inputs and outputs, wherever numpy put what is fed; other values and texts come through."""
    graph = layer_graph(residual(tmp_path / "model.onnx"), image(), "source", tmp_path / "view")
    item = brick_item(graph, next(cut(graph, 1)), tmp_path)
    room = np.zeros(4096, np.uint8)
    off = room[-room.ctypes.data % 64 + 16 :][: 3 * 8 * 8 * 4].view(np.float32).reshape(1, 3, 8, 8)
    off[...] = feeds_of(item)["x0"]
    network = BoundNetwork(item.path, {"x0": off}, threads=1, whole=False)
    for name in ("x0", output_name(0)):
        assert network.numbers(name).ctypes.data % 64 == 0
    assert np.array_equal(network.numbers("x0"), off)
    assert aligned(np.zeros((0, 3))).shape == (0, 3) and aligned(np.array(["a"], object)).tolist() == ["a"]
    assert aligned(np.array(7)).shape == ()


def feeds_of(item: Item) -> dict[str, np.ndarray[Any, Any]]:
    with np.load(item.feeds) as file:
        return {name: file[name] for name in file.files}


def test_needs_follow_the_graph(tmp_path: Path) -> None:
    """The addition takes from the block's beginning too."""
    graph = layer_graph(residual(tmp_path / "model.onnx"), image(), "source", tmp_path / "view")
    needs = needs_of(list(cut(graph, 1)))
    assert needs == [[], [0], [1], [2], [0, 3], [4], [5], [6], [4, 7]]
