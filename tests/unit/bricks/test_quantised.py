"""Bricks in int8 and in half precision: what their keys say, what they are timed on, and that the cut is right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.bricks.brick import Brick, cut
from inferbench_tasks.bricks.chain import HALF_RATIO, Proof, prove
from inferbench_tasks.bricks.layers import LayerGraph, layer_graph
from inferbench_tasks.bricks.networks import network, network_feeds
from inferbench_tasks.bricks.runtimes.onnxruntime import open_network
from inferbench_tasks.contracts.arrays import Array, Arrays
from tests.unit.bricks.graphs import save, weight

FEEDS: Arrays = {"x": weight(3, 8, seed=1)}
FLOATS = {"x": (TensorProto.FLOAT, ("batch", 8))}


def integers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(-100, 100, shape).astype(np.int8)


def static(path: Path, *, scale: float = 0.1, zero: int = 120, channel_zero: int = 0, seed: int = 0) -> Path:
    """Quantize > matrix product > matrix product > Dequantize, the weights' scales and zero points by channel."""
    constants: dict[str, Any] = {
        "xs": np.float32(0.05), "xz": np.uint8(128), "s": np.float32(scale), "z": np.uint8(zero),
        "ws": np.abs(weight(8, seed=seed)) + 0.01, "wz": np.full(8, channel_zero, np.int8),
        "w1": integers(8, 8, seed=seed), "w2": integers(8, 8, seed=seed + 1),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["a"]),
        helper.make_node("QLinearMatMul", ["a", "xs", "xz", "w1", "ws", "wz", "s", "z"], ["b"]),
        helper.make_node("QLinearMatMul", ["b", "s", "z", "w2", "ws", "wz", "s", "z"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    return save(path, nodes, {name: np.asarray(value) for name, value in constants.items()}, FLOATS)


def dynamic(path: Path, seed: int = 0) -> Path:
    """Scales measured on each input: DynamicQuantizeLinear > MatMulInteger > Cast > Mul."""
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["a", "s", "z"]),
        helper.make_node("MatMulInteger", ["a", "w", "z"], ["b"]),
        helper.make_node("Cast", ["b"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["c", "s"], ["y"]),
    ]
    return save(path, nodes, {"w": integers(8, 8, seed=seed)}, FLOATS)


def half(path: Path, numpy_type: type = np.float16, kind: int = TensorProto.FLOAT16) -> Path:
    """A matrix product and a Relu in half precision."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
    return save(path, nodes, {"w": weight(8, 8).astype(numpy_type)}, {"x": (kind, ("batch", 8))}, kind=kind)


def opened(path: Path, feeds: Arrays, view: str) -> tuple[LayerGraph, list[Brick], Path]:
    folder = path.parent / f"{path.stem}.{view}"
    graph = layer_graph(path, feeds, view, folder)
    return graph, list(cut(graph, 1)), folder


def proof(path: Path, feeds: Arrays, view: str, off: float = 0.0) -> Proof:
    """``off``: by so much of the answer it differs from what the chain gives."""
    import onnxruntime as ort

    graph, bricks, folder = opened(path, feeds, view)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return prove(graph, bricks, feeds, {"y": session.run(None, feeds)[0] / (1 + off)}, folder)


@pytest.mark.parametrize("view", ["source", "portable", "runtime"])
def test_the_chained_bricks_of_quantised_models_answer_as_the_whole(tmp_path: Path, view: str) -> None:
    """To the last integer; in half precision to one step of it."""
    for make in (static, dynamic):
        assert proof(make(tmp_path / f"{make.__name__}.onnx"), FEEDS, view).edges_ratio == 0
    found = proof(half(tmp_path / "half.onnx"), {"x": FEEDS["x"].astype(np.float16)}, view)
    assert found.holds and found.edges_allowed_ratio == HALF_RATIO


@pytest.mark.parametrize(("off", "holds"), [(0.09, True), (0.11, False), (1.0, False)])
def test_a_quantised_answer_may_differ_by_a_tenth_and_no_more(
    tmp_path: Path, off: float, holds: bool
) -> None:
    """Of its largest value, with the tensors between bricks to the last integer; in single precision a hundredth of
    that is too much."""
    for make in (static, dynamic):
        found = proof(make(tmp_path / f"{make.__name__}.onnx"), FEEDS, "source", off)
        assert found.edges_ratio == 0 and found.answer_ratio == pytest.approx(off, rel=1e-3)
        assert found.holds == holds
    single = half(tmp_path / "single.onnx", np.float32, TensorProto.FLOAT)
    assert not proof(single, FEEDS, "source", off / 100).holds


def test_weights_are_in_no_key_and_scales_and_zero_points_are(tmp_path: Path) -> None:
    """Of a tensor, and the zero points of channels: products with those that are 0 are left out."""
    keys = [brick.key for brick in opened(static(tmp_path / "a.onnx"), FEEDS, "source")[1]]
    same = [brick.key for brick in opened(static(tmp_path / "b.onnx", seed=9), FEEDS, "source")[1]]
    assert same == keys
    for at, more in enumerate(({"scale": 0.2}, {"zero": 121}, {"channel_zero": 1})):
        other = [brick.key for brick in opened(static(tmp_path / f"c{at}.onnx", **more), FEEDS, "source")[1]]  # type: ignore[arg-type]
        assert other[1] != keys[1] and other[2] != keys[2], more


def test_which_integers_are_computed_with_is_in_no_identity(tmp_path: Path) -> None:
    """Other weights make other activations, in 8 bits and in sums of products: the same measurement all the same."""
    for make in (static, dynamic):
        one = [brick.identity for brick in opened(make(tmp_path / "one.onnx"), FEEDS, "source")[1]]
        other = [
            brick.identity for brick in opened(make(tmp_path / "other.onnx", seed=9), FEEDS, "source")[1]
        ]
        assert one == other


def test_noise_keeps_scales_and_zero_points(tmp_path: Path) -> None:
    """What is drawn anew are weights, in their range; the network runs by itself on what was recorded."""
    graph, bricks, _ = opened(static(tmp_path / "a.onnx"), FEEDS, "source")
    model = network(graph, bricks[1])
    original, drawn = (_constants(node) for node in (bricks[1].layers[0].node, model.graph.node(0)))
    # The input's scale and zero point, weights with their scales and zero points, the output's scale and zero point.
    assert [(one != other).any() for one, other in zip(original, drawn, strict=True)] == [
        False, False, True, True, False, False, False,
    ]  # fmt: skip
    for at in (2, 3):
        assert original[at].min() <= drawn[at].min() and drawn[at].max() <= original[at].max()
    [answer] = open_network(model).run(None, network_feeds(graph, bricks[1]))
    assert answer.dtype == np.uint8


def _constants(node: ir.Node) -> list[Array]:
    return [v.const_value.numpy() for v in node.inputs if v is not None and v.const_value is not None]


def test_types_make_other_keys(tmp_path: Path) -> None:
    """A Relu in half and in single precision."""
    feeds = {"x": FEEDS["x"].astype(np.float16)}
    [_, one] = opened(half(tmp_path / "half.onnx"), feeds, "source")[1]
    [_, other] = opened(half(tmp_path / "single.onnx", np.float32, TensorProto.FLOAT), FEEDS, "source")[1]
    assert one.operators == other.operators == ("Relu",) and one.key != other.key
