"""``inferbench bricks``: a model taken apart, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from inferbench_tasks.bricks.inputs import inputs_of
from inferbench_tasks.cli.main import main
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import TensorSpec
from inferbench_tasks.modelrepo.zoo_digits import Digits
from tests.unit.bricks.graphs import residual, save, weight


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["bricks", "decompose", *arguments])
    return int(end.value.code or 0)


@pytest.fixture
def model(tmp_path: Path, data_dir: Path) -> str:
    return str(residual(tmp_path / "ours.onnx"))


def test_the_table_counts_by_operator(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Five convolutions of two kinds, two equal activations, two equal additions; the words say it in all."""
    assert run(model, "--view", "source") == 0
    out, err = capsys.readouterr()
    rows = {row.split()[0]: row.split()[1:] for row in out.splitlines()[2:]}
    assert {name: row[:2] for name, row in rows.items()} == {
        "Conv": ["5", "2"],
        "Add": ["2", "1"],
        "Relu": ["2", "1"],
    }
    assert "9 layers, 9 bricks, 4 unique (44.4%)" in err


def test_json_has_the_sequence_with_its_keys(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One key per brick in the model's order, with operators and shapes."""
    assert run(model, "--view", "source", "-G", "2", "-b", "3", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["batch_size"] == 3 and document["layers"] == 9 and document["granularity"] == 2
    assert sum(len(brick["operators"]) for brick in document["sequence"]) == 9
    assert all(re.fullmatch(r"[0-9a-f]{64}", brick["key"]) for brick in document["sequence"])
    assert document["sequence"][0]["inputs"] == [[3, 3, 8, 8]]
    assert document["unique"] == len({brick["key"] for brick in document["sequence"]})


def test_the_runtime_s_view_names_its_processor_and_whole_is_one_brick(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is fused depends on it; without its layouts there are fewer layers than were converted."""
    assert run(model, "-G", "whole", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["view"], document["bricks"], document["unique"]) == ("runtime", 1, 1)
    assert document["instruction_set"]
    assert run(model, "--view", "portable", "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["layers"] < 9 and document["instruction_set"] is None


def test_check_proves_the_cut_and_save_writes_each_unique_brick(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files named by their keys, which the checker of ONNX accepts."""
    folder = tmp_path / "networks"
    assert run(model, "--view", "source", "--check", "--save", str(folder), "-o", "json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["proved"] is True and document["edges_ratio"] <= 1e-4
    files = sorted(folder.iterdir())
    assert [file.stem for file in files] == sorted({brick["key"] for brick in document["sequence"]})
    for file in files:
        onnx.checker.check_model(file, full_check=True)


def test_an_open_size_needs_a_value(
    tmp_path: Path, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which input, and how it is set; set, it is that size."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    inputs = {"x": (TensorProto.FLOAT, ("batch", "tokens", 4))}
    path = str(save(tmp_path / "m.onnx", [node], {"w": weight(4, 4)}, inputs))
    assert run(path) == 2
    assert "x has the open sizes [-1, 4]; fix them by --shape x=Nx4" in capsys.readouterr().err
    assert run(path, "--shape", "x=7x4", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["sequence"][0]["inputs"] == [[1, 7, 4]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-G", "0"], "1, 2, 3, ... up to the model's layers, or whole"),
        (["-G", "1.5"], "1, 2, 3, ... up to the model's layers, or whole"),
        (["-G", "10", "--view", "source"], "allowed: 1 to 9, or whole"),
        (["--view", "fast"], "known: runtime, portable, source"),
        (["--shape", "x"], "is no INPUT=SIZES"),
        (["--shape", "x=0"], "is no INPUT=SIZES"),
        (["--shape", "z=3x8x8"], "has no input z; it has x"),
        (["--shape", "x=3x8"], "x takes [3, 8, 8], not [3, 8]"),
        (["-b", "0"], "--batch"),
        (["--framework", "torch"], "leave --framework out"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(
    model: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing on stdout."""
    assert run(model, *arguments) == 2
    out, err = capsys.readouterr()
    assert message in err and not out


def test_an_unknown_model_is_refused(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the names of those that are built in; a path that is not there is named."""
    assert run("resnet51") == 2
    assert "bert-base, bert-large" in capsys.readouterr().err
    assert run("nowhere/resnet50.onnx") == 2
    assert "resnet50.onnx is not there" in capsys.readouterr().err


class Tokens(Digits):
    """A text model: its noise has sixteen tokens whatever is asked for, and masks none of them."""

    def dataset(self) -> None:  # type: ignore[override]
        return None

    def noise(self, inputs: tuple[TensorSpec, ...], count: int, rng: np.random.Generator) -> Arrays:
        ids = rng.integers(0, 30_000, (count, 16))
        return {"ids": ids, "mask": np.ones_like(ids)}


@pytest.mark.parametrize("tokens", [8, 16, 40])
def test_a_text_model_s_own_noise_fills_any_length(tokens: int) -> None:
    """Ids over its whole vocabulary and a mask of ones, not the zeros and ones of an unknown integer input."""
    specs = tuple(TensorSpec(name=name, dtype="int64", shape=(-1,)) for name in ("ids", "mask"))
    feeds = inputs_of(Tokens("digits"), specs, 2, {"ids": (tokens,), "mask": (tokens,)})
    assert feeds["ids"].shape == (2, tokens) and feeds["ids"].max() > 1000
    assert (feeds["mask"] == 1).all()
