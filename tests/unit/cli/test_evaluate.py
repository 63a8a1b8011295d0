"""``inferbench evaluate`` makes a submission that reads as any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cli.evaluate import submission
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


def test_an_unknown_data_set_is_refused_with_those_there_are(tmp_path: Path) -> None:
    """Before anything starts, with a hint."""
    file = tmp_path / "s.yaml"
    file.write_text(submission("digits", "digit", None, None, ["fp32"], "onnx", "onnxruntime", 2))
    with pytest.raises(InputError, match="digits"):
        read_submission(file, INSTALLED)
