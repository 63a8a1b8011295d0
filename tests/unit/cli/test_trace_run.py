"""``inferbench trace run`` makes a submission that reads as any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.cli.trace import app
from inferbench_tasks.cli.trace_run import submission
from inferbench_tasks.errors import InputError
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.schema import serving_only
from inferbench_tasks.submission.sweep import expand


def test_the_options_become_a_submission(tmp_path: Path) -> None:
    """Without a load; what is not said is as usual."""
    file = tmp_path / "s.yaml"
    file.write_text(submission("digits", [], "openvino", "openvino", {"requests": 7, "deepest": "library"}))
    (job,) = expand(serving_only(read_submission(file, INSTALLED), "this test"))
    spec = job.spec
    assert spec.load is None and spec.evaluate is None and spec.trace is not None
    assert (spec.trace.requests, spec.trace.rounds, spec.trace.deepest) == (7, 3, "library")
    assert (spec.convert.format, spec.serve.backend, spec.serve.threads) == ("openvino", "openvino", 1)


def test_each_stack_is_a_job(tmp_path: Path) -> None:
    """By their manifests, which say format and backend."""
    file = tmp_path / "s.yaml"
    file.write_text(submission("digits", ["onnxruntime@^1", "openvino@^1"], "onnx", "onnxruntime", {}))
    jobs = expand(serving_only(read_submission(file, INSTALLED), "this test"))
    assert [job.spec.serve.backend for job in jobs] == ["onnxruntime", "openvino"]
    assert all(job.spec.trace is not None for job in jobs)


def test_the_command_hands_its_submission_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as `inferbench run`, which refuses a backend that tells nothing of requests."""
    monkeypatch.chdir(tmp_path)
    asked = ["run", "digits", "--format", "savedmodel", "--backend", "tensorflow_serving", "--inline"]
    ended = CliRunner().invoke(app, asked)
    assert isinstance(ended.exception, InputError)
    assert "tells nothing of single requests" in str(ended.exception)
    assert list(tmp_path.iterdir()) == []


def test_the_submission_can_be_seen(tmp_path: Path) -> None:
    """`--show` prints it, and nothing runs."""
    shown = CliRunner().invoke(app, ["run", "digits", "--stack", "onnxruntime@^1", "--rounds", "2", "--show"])
    assert shown.exit_code == 0
    assert "stack: onnxruntime@^1" in shown.stdout and "rounds: 2" in shown.stdout
    assert "backend" not in shown.stdout
