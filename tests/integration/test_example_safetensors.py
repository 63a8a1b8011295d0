"""The example of weights in safetensors with the user's own module, from its script to the checked conversion."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.running.perform import perform
from inferbench_tasks.stages import convert, generate
from inferbench_tasks.stages.base import Context
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import expand

EXAMPLE = Path(__file__).parents[2] / "examples" / "safetensors-model"


def test_the_example_works_as_its_first_lines_say(tmp_path: Path) -> None:
    """Its samples, which it was not trained on, are mostly recognised; the ONNX form answers the same."""
    pytest.importorskip("torch")
    folder = tmp_path / "example"
    shutil.copytree(EXAMPLE, folder)
    subprocess.run([sys.executable, "make_weights.py"], cwd=folder, check=True, timeout=300)
    (job,) = expand(read_submission(folder / "submission.yaml", INSTALLED))
    ctx = Context(data_dir=tmp_path / "data", base_dir=folder)
    base = {"run_id": "r", "job_id": "j", "job": job.spec.model_dump(mode="json")}
    made = perform(generate, generate.Input.model_validate(base), ctx)
    assert (made.model.format, made.model.parameters) == ("torch", 64 * 32 + 32 + 32 * 10 + 10)
    with np.load(made.requests.reference_path) as answers:
        scores = answers["scores"]
    labels = np.load(str(made.requests.labels_path))
    assert (scores.argmax(1) == labels).mean() > 0.8
    done = perform(convert, convert.Input.model_validate({**base, "generate": made}), ctx)
    assert done.model.format == "onnx" and done.difference_ratio < 1e-4
