"""Keys: all that decides a brick's work, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.bricks.brick import Brick, cut
from inferbench_tasks.bricks.layers import layer_graph
from inferbench_tasks.contracts.arrays import Array, Arrays
from tests.unit.bricks.graphs import IMAGE, image, residual, save, weight

#: Made by the first version; results are stored under such keys, so a change of them is a new recipe.
GOLDEN = {
    1: [
        "92ef9f4eeefb25d5f8aa817d5309560c70e86c2c7b82d9d2330fc2f4136d4c0d",
        "55b24a2f6c32006b078771937d67ae94d3e14cc925a1e3c46e355d3a1b84c757",
        "a85341cbfc78cf8fb14b3a821af6f34ea008b5e62cbc56219e82cb1667627dc3",
        "55b24a2f6c32006b078771937d67ae94d3e14cc925a1e3c46e355d3a1b84c757",
        "66df5575b6b84098312bf8f53acf35b4b9808baa5013d2230df8274e024891d9",
        "55b24a2f6c32006b078771937d67ae94d3e14cc925a1e3c46e355d3a1b84c757",
        "a85341cbfc78cf8fb14b3a821af6f34ea008b5e62cbc56219e82cb1667627dc3",
        "55b24a2f6c32006b078771937d67ae94d3e14cc925a1e3c46e355d3a1b84c757",
        "66df5575b6b84098312bf8f53acf35b4b9808baa5013d2230df8274e024891d9",
    ],
    2: [
        "7de9455c2ab83330e94c069c2e82ee3fbc3257952de132de6ee11bf101186016",
        "809936d0d14efdb080cc76ed1c1705c68e4040c7e93546e8705b01319065ee55",
        "66df5575b6b84098312bf8f53acf35b4b9808baa5013d2230df8274e024891d9",
        "2cfb2cc093f561bf0193920ae431d3220ec568cfb16475046b550c65ec3e5839",
        "55b24a2f6c32006b078771937d67ae94d3e14cc925a1e3c46e355d3a1b84c757",
        "66df5575b6b84098312bf8f53acf35b4b9808baa5013d2230df8274e024891d9",
    ],
}


def bricks_of(path: Path, feeds: Arrays, granularity: int | None = 1) -> list[Brick]:
    graph = layer_graph(path, feeds, "source", path.parent / f"{path.stem}.view")
    return list(cut(graph, granularity))


def keys_of(path: Path, feeds: Arrays | None = None, granularity: int | None = 1) -> list[str]:
    return [brick.key for brick in bricks_of(path, feeds or image(), granularity)]


def convolution(path: Path, *, channels: int = 4, bias: bool = False, **attributes: Any) -> str:
    """The key of a model with one Conv."""
    weights = {"w": weight(channels, 3 // attributes.get("group", 1), 3, 3)}
    if bias:
        weights["b"] = weight(channels)
    save(path, [helper.make_node("Conv", ["x", *weights], ["y"], **attributes)], weights, IMAGE)
    (key,) = keys_of(path)
    return key


@pytest.mark.parametrize("granularity", GOLDEN)
def test_golden_keys(tmp_path: Path, granularity: int) -> None:
    """The same graph has the keys that it had in the first version."""
    assert keys_of(residual(tmp_path / "m.onnx"), granularity=granularity) == GOLDEN[granularity]


def test_the_same_layer_has_the_same_key_elsewhere(tmp_path: Path) -> None:
    """Names, weights and the file's order are not in it; blocks that repeat share theirs."""
    one = residual(tmp_path / "one.onnx")
    other = residual(tmp_path / "other.onnx", prefix="another/model.", seed=50)
    model = onnx.load(other)
    tensors = list(model.graph.initializer)
    del model.graph.initializer[:]
    model.graph.initializer.extend(reversed(tensors))
    onnx.save(model, other)
    keys = keys_of(one)
    assert keys_of(other) == keys
    assert len(keys) == 9 and len(set(keys)) == 4  # first Conv, others, Relu, Add
    assert keys_of(one, granularity=None) == keys_of(other, granularity=None)


def test_the_file_s_order_of_nodes_changes_nothing(tmp_path: Path) -> None:
    """Two branches written in turns or one after the other are cut alike, at every granularity."""
    left = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Sigmoid", ["a"], ["b"])]
    right = [helper.make_node("Tanh", ["x"], ["c"]), helper.make_node("Exp", ["c"], ["d"])]
    end = [helper.make_node("Add", ["b", "d"], ["y"])]
    one = save(tmp_path / "one.onnx", [*left, *right, *end], {}, IMAGE)
    other = save(tmp_path / "other.onnx", [right[0], left[0], right[1], left[1], *end], {}, IMAGE)
    for granularity in (1, 2, 3, None):
        assert keys_of(one, granularity=granularity) == keys_of(other, granularity=granularity)


def test_a_key_is_the_same_in_another_process(tmp_path: Path) -> None:
    """With another seed of Python's hashes too."""
    path = residual(tmp_path / "m.onnx")
    program = (
        "import sys; from pathlib import Path; from tests.unit.bricks.test_keys import keys_of; "
        "print(*keys_of(Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", program, str(path)]
    root = Path(__file__).resolve().parents[3]
    environment = {"PYTHONHASHSEED": "1", "PATH": "/usr/bin:/bin"}
    out = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.split() == keys_of(path)


def test_attributes_and_shapes_are_in_the_key(tmp_path: Path) -> None:
    """A stride, dilation, group, padding, bias or width more or less is another key."""
    cases: list[dict[str, Any]] = [
        {},
        {"strides": [2, 2]},
        {"dilations": [2, 2]},
        {"group": 3, "channels": 6},
        {"channels": 6},
        {"pads": [1, 1, 1, 1]},
        {"bias": True},
    ]
    keys = [convolution(tmp_path / f"{i}.onnx", **case) for i, case in enumerate(cases)]
    assert len(set(keys)) == len(cases)


def test_batch_sizes_and_types_are_in_the_key(tmp_path: Path) -> None:
    """Two samples are other work than one, doubles than floats."""
    node = helper.make_node("Relu", ["x"], ["y"])
    doubles = {"x": (TensorProto.DOUBLE, ("batch", 3, 8, 8))}
    floats = save(tmp_path / "f.onnx", [node], {}, IMAGE)
    keys = [
        keys_of(floats),
        keys_of(floats, {"x": weight(2, 3, 8, 8)}),
        keys_of(
            save(tmp_path / "d.onnx", [node], {}, doubles, kind=TensorProto.DOUBLE),
            {"x": image()["x"].astype(np.float64)},
        ),
    ]
    assert len({key for (key,) in keys}) == 3


def test_what_is_meant_anyway_is_not_in_the_key(tmp_path: Path) -> None:
    """One framework's exporter writes an operator's defaults down, another's leaves them out."""
    spelled: dict[str, Any] = {
        "strides": [1, 1], "dilations": [1, 1], "pads": [0, 0, 0, 0], "group": 1, "kernel_shape": [3, 3],
        "auto_pad": "NOTSET",
    }  # fmt: skip
    assert convolution(tmp_path / "a.onnx") == convolution(tmp_path / "b.onnx", **spelled)


@pytest.mark.parametrize(
    ("operator", "constants", "others"),
    [
        ("Reshape", [np.array([1, 192])], [np.array([3, 64])]),
        ("Pow", [np.float32(2.0)], [np.float32(3.0)]),
        ("Where", [np.zeros(8, bool), np.float32(1.0)], [np.ones(8, bool), np.float32(1.0)]),
    ],
)
def test_constants_that_decide_the_work_are_in_the_key(
    tmp_path: Path, operator: str, constants: list[Array], others: list[Array]
) -> None:
    """Integers, booleans and single numbers by their values."""

    def key(name: str, values: list[Any]) -> str:
        names = [f"c{index}" for index in range(len(values))]
        inputs = [names[0], "x", names[1]] if operator == "Where" else ["x", *names]
        arrays = {n: np.asarray(v) for n, v in zip(names, values, strict=True)}
        path = save(tmp_path / name, [helper.make_node(operator, inputs, ["y"])], arrays, IMAGE)
        return keys_of(path)[0]

    assert key("a.onnx", constants) == key("b.onnx", constants) != key("c.onnx", others)


def test_measured_inputs_are_in_the_identity_alone(tmp_path: Path) -> None:
    """Softmax over masked scores is another measurement than over noise; a convolution of other pixels is none."""
    softmax = save(tmp_path / "s.onnx", [helper.make_node("Softmax", ["x"], ["y"])], {}, IMAGE)
    noise = image()
    masked = {"x": noise["x"].copy()}
    masked["x"][..., 4:] = -1e4
    shrunk = {"x": (noise["x"] * 1.1).astype(np.float32)}
    (plain,), (half,), (similar,) = (bricks_of(softmax, feeds) for feeds in (noise, masked, shrunk))
    assert plain.key == half.key == similar.key
    assert plain.identity == similar.identity != half.identity
    conv = residual(tmp_path / "r.onnx")
    scaled = {"x": noise["x"] * 1000}
    assert [b.identity for b in bricks_of(conv, noise)] == [b.identity for b in bricks_of(conv, scaled)]


def test_integers_that_are_fed_are_in_the_identity(tmp_path: Path) -> None:
    """Two look-ups of other rows are two measurements of one key."""
    node = helper.make_node("Gather", ["w", "x"], ["y"])
    path = save(tmp_path / "g.onnx", [node], {"w": weight(50, 4)}, {"x": (TensorProto.INT64, ("n", 4))})
    one, other = (bricks_of(path, {"x": np.array([row])})[0] for row in ([1, 2, 3, 4], [9, 9, 9, 9]))
    assert one.key == other.key
    assert one.identity != other.identity
