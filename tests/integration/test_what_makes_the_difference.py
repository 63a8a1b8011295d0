"""What makes the difference, named first, of models that ONNX Runtime really ran."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from inferbench_tasks.analysis.stack.difference import BETWEEN, Difference, difference
from inferbench_tasks.analysis.stack.profile import Profile, profile_of
from inferbench_tasks.analysis.stack.words import sentences
from inferbench_tasks.contracts.handles import TensorSpec
from tests.serving_cases import Case, dense_case
from tests.traced_engine import traced

pytestmark = pytest.mark.integration
SHAPE = (4, 65_536)
RNG = np.random.default_rng(3)


def convolution(name: str, of: str, size: int) -> tuple[NodeProto, TensorProto]:
    """A convolution over one axis that keeps the shape, with a kernel of that size.

    Over two axes ONNX Runtime would change the layout, which takes longer than what is to be seen here.
    """
    weights = RNG.normal(size=(SHAPE[0], SHAPE[0], size)).astype(np.float32) / size
    node = helper.make_node("Conv", [of, f"{name}.w"], [name], name=name, pads=[size // 2] * 2)
    return node, numpy_helper.from_array(weights, f"{name}.w")


def case(folder: Path, nodes: list[NodeProto], weights: list[TensorProto], outputs: list[str]) -> Case:
    """These nodes as a model; ``x`` goes in, ``outputs`` come out."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "made",
        [value("x", TensorProto.FLOAT, ["n", *SHAPE])],
        [value(name, TensorProto.FLOAT, ["n", *SHAPE]) for name in outputs],
        weights,
    )
    folder.mkdir()
    path = folder / "made.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    specs = {name: TensorSpec(name=name, dtype="float32", shape=SHAPE) for name in ("x", *outputs)}
    model = dense_case(folder).model.model_copy(
        update={
            "path": str(path),
            "inputs": (specs["x"],),
            "outputs": tuple(specs[name] for name in outputs),
        }
    )
    return Case(model, {"x": RNG.normal(size=(1, *SHAPE)).astype(np.float32)}, {})


def ran(made: Case, folder: Path, label: str) -> Profile:
    """The model by ONNX Runtime, in two rounds of some runs each."""
    spans = [span for at in range(2) for span in traced("onnxruntime", made, folder, 8, at).spans]
    found = profile_of(spans, label)
    assert found is not None
    return found


def adds_up(found: Difference) -> bool:
    """Whether the rows are the whole difference."""
    return sum(row.difference_ms for row in found.rows) == pytest.approx(found.difference_ms)


def model_of(folder: Path, sizes: tuple[int, ...]) -> Case:
    """Three convolutions with kernels of these sizes, each with a sine behind it, which is never fused."""
    nodes, weights, of = [], [], "x"
    for at, size in enumerate(sizes):
        node, weight = convolution(f"c{at}", of, size)
        of = f"s{at}"
        nodes += [node, helper.make_node("Sin", [f"c{at}"], [of], name=of)]
        weights.append(weight)
    return case(folder, nodes, weights, [of])


def test_the_layer_that_became_slow_is_named_first(tmp_path: Path) -> None:
    """The second of three convolutions has a kernel of 301 instead of 3: a hundred times the work."""
    quick = ran(model_of(tmp_path / "quick", (3, 3, 3)), tmp_path, "quick")
    slow = ran(model_of(tmp_path / "slow", (3, 301, 3)), tmp_path, "slow")
    found = difference(quick, slow)
    first = found.rows[0]
    assert first.what == "same" and first.kind == "convolution"
    assert "c1" in first.left[0] and "c1" in first.right[0]
    assert first.ratio is not None and first.ratio > 3
    assert first.difference_ms > 0.5 * found.difference_ms and adds_up(found)


def normalised(folder: Path, square: str) -> Case:
    """x less its mean by its standard deviation: LayerNormalization, in nine operators."""
    constants = {"epsilon": [1e-5], "scale": [1.0] * SHAPE[1], "bias": [0.0] * SHAPE[1]}
    if square == "Pow":
        constants["two"] = [2.0]
    weights = [
        numpy_helper.from_array(np.array(value, np.float32), name) for name, value in constants.items()
    ]
    squared = helper.make_node("Pow", ["d", "two"], ["q"], name="q")
    if square == "Mul":
        squared = helper.make_node("Mul", ["d", "d"], ["q"], name="q")
    steps = [
        helper.make_node("ReduceMean", ["x"], ["m"], name="m", axes=[-1]),
        helper.make_node("Sub", ["x", "m"], ["d"], name="d"),
        squared,
        helper.make_node("ReduceMean", ["q"], ["v"], name="v", axes=[-1]),
        helper.make_node("Add", ["v", "epsilon"], ["e"], name="e"),
        helper.make_node("Sqrt", ["e"], ["s"], name="s"),
        helper.make_node("Div", ["d", "s"], ["n"], name="n"),
        helper.make_node("Mul", ["n", "scale"], ["t"], name="t"),
        helper.make_node("Add", ["t", "bias"], ["y"], name="y"),
    ]
    return case(folder, steps, weights, ["y"])


def test_a_fusion_that_was_lost_is_named(tmp_path: Path) -> None:
    """A square is made by Mul instead of Pow, and what was one layer are nine, which stand against it."""
    fused = ran(normalised(tmp_path / "fused", "Pow"), tmp_path, "fused")
    plain = ran(normalised(tmp_path / "plain", "Mul"), tmp_path, "plain")
    assert [layer.type for layer in fused.layers] == ["LayerNormalization"]
    found = difference(fused, plain)
    (row,) = (row for row in found.rows if row.what != BETWEEN)
    assert row.what == "fused left" and row.right == ("m", "d", "q", "v", "e", "s", "n", "t", "y")
    assert adds_up(found)
    assert "fused runs 8 layers less, in 1 fused ones." in sentences(found)
