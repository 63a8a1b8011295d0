"""Small ONNX models whose bricks can be counted by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks.contracts.arrays import Array, Arrays


def save(
    path: Path,
    nodes: Sequence[Any],
    constants: Mapping[str, Array],
    inputs: Mapping[str, tuple[int, Sequence[int | str]]],
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
    kind: int = TensorProto.FLOAT,
) -> Path:
    """A model of these nodes; an input is its element type and its sizes, ``kind`` the element type of the outputs."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, kind, list(sizes)) for name, (kind, sizes) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.save(model, path)
    return path


def weight(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def image(side: int = 8, channels: int = 3) -> Arrays:
    return {"x": weight(1, channels, side, side, seed=1)}


IMAGE = {"x": (TensorProto.FLOAT, ("batch", 3, 8, 8))}


def residual(path: Path, prefix: str = "", seed: int = 0, **convolution: Any) -> Path:
    """Two blocks of Conv > Relu > Conv > Add(with the block's input), four channels wide, after a first Conv."""
    settings = {"pads": [1, 1, 1, 1], **convolution}
    nodes = [helper.make_node("Conv", ["x", f"{prefix}w"], [f"{prefix}a0"], pads=[1, 1, 1, 1])]
    constants = {f"{prefix}w": weight(4, 3, 3, 3, seed=seed)}
    for block in range(2):
        one, two, three = (f"{prefix}{letter}{block}" for letter in "bcd")
        start, end = f"{prefix}a{block}", f"{prefix}a{block + 1}" if block == 0 else "y"
        constants[f"{one}w"] = weight(4, 4, 3, 3, seed=seed + block + 1)
        constants[f"{three}w"] = weight(4, 4, 3, 3, seed=seed + block + 5)
        nodes += [
            helper.make_node("Conv", [start, f"{one}w"], [one], **settings),
            helper.make_node("Relu", [one], [two]),
            helper.make_node("Conv", [two, f"{three}w"], [three], **settings),
            helper.make_node("Add", [three, start], [end]),
        ]
    return save(path, nodes, constants, IMAGE)
