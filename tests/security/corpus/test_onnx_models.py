"""ONNX files of strangers: what lies in other files, named anywhere in the graph."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from inferbench_tasks.artifacts import safe_files
from inferbench_tasks.errors import InputError

#: From the model's folder: out of it, absolute, by a link in it, a device, what is no file, what is not there.
LOCATIONS = ("../secret", "/etc/passwd", "link", "/dev/zero", "pipe", "folder", "missing")


def outside(location: str) -> Any:
    """A tensor of 4 x 2 floats whose values lie in that file."""
    tensor = TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4, 2], data_location=TensorProto.EXTERNAL
    )
    tensor.external_data.add(key="location", value=location)
    return tensor


def model(nodes: list[Any], **parts: Any) -> Any:
    functions = parts.pop("functions", [])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])
    graph = helper.make_graph([*nodes, helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], **parts)
    return helper.make_model(graph, functions=functions)


def constant(tensor: Any) -> Any:
    return helper.make_node("Constant", [], ["w"], value=tensor)


def body(node: Any) -> Any:
    return helper.make_graph(
        [node], "body", [], [helper.make_tensor_value_info("w", TensorProto.FLOAT, None)]
    )


def choice(node: Any) -> Any:
    return helper.make_node("If", ["yes"], ["w"], then_branch=body(node), else_branch=body(node))


def in_a_body(tensor: Any) -> Any:
    return model(
        [choice(choice(constant(tensor)))], initializer=[helper.make_tensor("yes", TensorProto.BOOL, [], [1])]
    )


def in_a_function(tensor: Any) -> Any:
    function = helper.make_function(
        "ours", "Weights", [], ["w"], [constant(tensor)], [helper.make_opsetid("", 17)]
    )
    return model([helper.make_node("Weights", [], ["w"], domain="ours")], functions=[function])


def sparse(tensor: Any) -> Any:
    indices = helper.make_tensor("indices", TensorProto.INT64, [8], range(8))
    return model([], sparse_initializer=[helper.make_sparse_tensor(tensor, indices, [4, 2])])


def in_training(tensor: Any) -> Any:
    made = model([], initializer=[helper.make_tensor("w", TensorProto.FLOAT, [4, 2], [0.0] * 8)])
    made.training_info.add().initialization.CopyFrom(body(constant(tensor)))
    return made


PLACES: dict[str, Callable[[Any], Any]] = {
    "initializer": lambda tensor: model([], initializer=[tensor]),
    "constant": lambda tensor: model([constant(tensor)]),
    "body of a body": in_a_body,
    "function": in_a_function,
    "sparse": sparse,
    "training": in_training,
}


@pytest.mark.parametrize("location", LOCATIONS)
@pytest.mark.parametrize("place", PLACES)
def test_no_file_but_those_of_its_folder_is_a_part_of_a_model(
    place: str, location: str, tmp_path: Path
) -> None:
    """Wherever the graph names it: refused before a runtime opens the model, and without opening what is named."""
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(bytes(32))
    (folder / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe")
    path = folder / "m.onnx"
    path.write_bytes(PLACES[place](outside(location)).SerializeToString())
    with pytest.raises(InputError, match="external data"):
        safe_files.external_data(path)


@pytest.mark.parametrize("place", PLACES)
def test_a_file_of_its_folder_is_found_wherever_it_is_named(place: str, tmp_path: Path) -> None:
    """So that it is copied, hashed and readable in the sandbox as the model is."""
    (tmp_path / "w.bin").write_bytes(bytes(32))
    path = tmp_path / "m.onnx"
    path.write_bytes(PLACES[place](outside("w.bin")).SerializeToString())
    assert safe_files.external_data(path) == [tmp_path / "w.bin"]
