"""``inferbench models inspect``: what it says of a file holds in a run, and what it refuses is refused by name."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import onnx
import pytest
from typer.testing import CliRunner

from inferbench_tasks.cli.main import app
from inferbench_tasks.cli.models_inspect import inspected
from inferbench_tasks.errors import InputError
from inferbench_tasks.running.cluster_abilities import of_cluster_here
from inferbench_tasks.submission.reader import read_submission
from tests.contract.odd_graphs import CASES
from tests.gguf_files import written

pytestmark = pytest.mark.integration


@pytest.fixture
def inspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("INFERBENCH_DATA_DIR", str(tmp_path / "data"))

    def run(name: str, *options: str) -> Any:
        path = tmp_path / "m.onnx"
        onnx.save(CASES[name][0](), path)
        return CliRunner().invoke(app, ["models", "inspect", str(path), *options])

    return run


def test_a_model_of_its_own_batch(inspect: Any, tmp_path: Path) -> None:
    """Its batch, why it is not free, its cost by hand, who serves it, and a submission that is valid as it stands."""
    result = inspect("a constant for each row", "-o", "json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert document["batch"] == 2 and document["inputs"][0]["shape"] == [2, 4]
    assert document["adapted"] == [
        "the batch of 2 can't be made free: Add (y) has a constant for each of the batch's rows"
    ]
    assert (document["flops"], document["parameters"], document["bytes"]) == (0, 8, None)
    assert document["operators"] == {"Add": 1}
    backends = {row["backend"] for row in document["runs"]}
    assert "onnxruntime" in backends and "triton" not in backends
    (triton,) = [words for words in document["refused"] if words.startswith("triton: ")]
    start = (
        "triton: it serves models with a free batch; export the model with the same free first axis of every "
        "input, or take "
    )
    assert triton.startswith(start) and triton.endswith(", at its batch of 2")
    assert set(triton.removeprefix(start).partition(",")[0].split(" or ")) == backends, "who serves it"
    (tmp_path / "s.yaml").write_text(document["submission"])
    submission = read_submission(tmp_path / "s.yaml", of_cluster_here(tmp_path / "data"))
    assert "batch_size: 2" in document["submission"] and submission.name == "m"
    assert not list((tmp_path / "data" / "runs").glob("*"))


def test_what_a_model_without_multiply_adds_computes_is_named(inspect: Any) -> None:
    """0 FLOPs are no statement that it does nothing; long sentences are no row of the table of facts."""
    document = json.loads(inspect("a constant for each row", "-o", "json").stdout)
    assert document["flops"] == 0
    uncounted = "; flops are of multiply-adds alone, which it has none of; not counted: Add"
    assert document["not_counted"].endswith(uncounted)
    lines = inspect("a constant for each row").stdout.splitlines()
    facts = [line for line in lines if line.startswith(("field", "parameters", "flops"))]
    assert len(facts) == 3 and max(map(len, facts)) < 200


def test_costs_of_free_sizes_are_told_with_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A MatMul of any number of rows of 4 with 4 x 3 weights: at 16 rows 16 x 4 x 3 multiply-adds, 384 FLOPs."""
    monkeypatch.setenv("INFERBENCH_DATA_DIR", str(tmp_path / "data"))
    weights = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [4, 3], [0.5] * 12)
    values = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", "rows", size])
        for name, size in (("x", 4), ("y", 3))
    ]
    node = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([node], "g", values[:1], values[1:], [weights])
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), tmp_path / "free.onnx")
    document = inspected(tmp_path / "free.onnx")
    assert document["flops"] == 384
    assert document["counted_with"] == "16 for each of the free sizes x.1"


def test_a_refused_file_is_refused_with_the_reason(inspect: Any) -> None:
    """As a run would, with nothing left of it."""
    result = inspect("an optional input")
    assert result.exit_code != 0
    assert "the input x is of type optional" in str(result.exception or result.output)


@pytest.mark.parametrize(
    ("ending", "says"),
    [("gguf", "no GGUF file"), ("xml", "its weights: m.bin is not there")],
)
def test_files_of_others_are_refused_with_what_helps(tmp_path: Path, ending: str, says: str) -> None:
    """By their names, unread; what has a name that is read is asked for what it is."""
    path = tmp_path / f"m.{ending}"
    path.write_bytes(b"x")
    result = CliRunner().invoke(app, ["models", "inspect", str(path)])
    assert result.exit_code != 0 and says in str(result.exception or result.output)


def test_a_language_model_is_told_with_a_submission_that_runs_it(tmp_path: Path, monkeypatch: Any) -> None:
    """Parameters and precision by hand: 16 numbers in f32 and 64 in q4_1; no backend of tensors is offered, and none
    whose format this file can't become. The submission stays within the model's context of 512 tokens.
    """
    monkeypatch.setenv("INFERBENCH_DATA_DIR", str(tmp_path / "data"))
    path = written(tmp_path)
    result = CliRunner().invoke(app, ["models", "inspect", str(path), "-o", "json"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["format"], document["parameters"], document["inputs"]) == ("gguf", 80, [])
    (row,) = document["runs"]
    assert (row["backend"], row["precisions"], row["way"]) == ("llama_cpp", "q4_1", "gguf")
    (tmp_path / "s.yaml").write_text(document["submission"])
    submission = read_submission(tmp_path / "s.yaml", of_cluster_here(tmp_path / "data"))
    assert submission.name == "m" and "llama_cpp, slots: 2, context_tokens: 512" in document["submission"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("w.safetensors", "name the Python file that builds it (--module net.py)"),
        ("/", "is no model's file or folder"),
        (os.fsdecode(b"m\xff.onnx"), "must be a path below the submission's folder"),
        ("nothing.onnx", "is not there"),
    ],
)
def test_what_is_no_model_is_refused_as_bad_input(tmp_path: Path, name: str, words: str) -> None:
    """Weights without a network, a folder without a name, a name that is no text, a missing file: told, not traced."""
    if name != "nothing.onnx" and name != "/":
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        inspected(tmp_path / name)
    assert caught.value.field == "model.path"


def test_a_module_elsewhere_is_refused(tmp_path: Path) -> None:
    """A submission names the module from the weights' folder, so it has to be below that."""
    (tmp_path / "weights").mkdir()
    arguments = [str(tmp_path / "weights" / "w.safetensors"), "--module", str(tmp_path / "net.py")]
    result = CliRunner().invoke(app, ["models", "inspect", *arguments])
    assert isinstance(result.exception, InputError) and "put it there" in str(result.exception)
