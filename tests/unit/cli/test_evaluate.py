"""``inferbench evaluate`` makes a submission that reads as any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cli.evaluate import app, submission
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import serving_only
from inferbench_tasks.submission.sweep import expand


def test_the_options_become_a_submission(tmp_path: Path) -> None:
    """Data set, samples and each precision stand in its jobs."""
    file = tmp_path / "s.yaml"
    file.write_text(submission("digits", "digits", None, 50, ["fp32", "int8"], "onnx", "onnxruntime", 2))
    read = serving_only(read_submission(file, INSTALLED), "this test")
    assert read.evaluate is not None and read.evaluate.dataset == "digits" and read.evaluate.samples == 50
    assert [job.spec.convert.precision for job in expand(read)] == ["fp32", "int8"]


def test_a_split_stands_in_the_submission(tmp_path: Path) -> None:
    """By its name; one that is not there is refused with those that are."""
    file = tmp_path / "s.yaml"
    for split in ("train", "val"):
        file.write_text(submission("digits", "digits", None, None, ["fp32"], "onnx", "onnxruntime", 2, split))
        if split == "train":
            read = serving_only(read_submission(file, INSTALLED), "this test")
            assert read.evaluate is not None and read.evaluate.split == "train"
        else:
            with pytest.raises(InputError, match="digits has no split 'val'; there are: train, test"):
                read_submission(file, INSTALLED)


def test_an_unknown_data_set_is_refused_with_those_there_are(tmp_path: Path) -> None:
    """Before anything starts, with a hint."""
    file = tmp_path / "s.yaml"
    file.write_text(submission("digits", "digit", None, None, ["fp32"], "onnx", "onnxruntime", 2))
    with pytest.raises(InputError, match="digits"):
        read_submission(file, INSTALLED)


def test_the_command_hands_its_submission_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as `inferbench run`, which reads it and refuses it as it would a file: with field and what there is.
    Nothing of it is left in the folder."""
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["digits", "--dataset", "digit", "--inline"])
    assert isinstance(ended.exception, InputError)
    assert "evaluate.dataset" in str(ended.exception) and "digits" in str(ended.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_asked_with_random_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes without samples; what is there is a file, what is not is a model of the zoo."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(b"")
    text = submission("m.onnx", "arrays", "a.npz", None, ["fp32"], "onnx", "onnxruntime", 2)
    assert "kind: file" in text and "kind: random" in text
    assert "kind: zoo" in submission("n.onnx", None, None, None, ["fp32"], "onnx", "onnxruntime", 2)
