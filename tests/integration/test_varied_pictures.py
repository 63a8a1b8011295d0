"""``evaluate.vary`` with a real server: from the command to the table, on pictures as files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from inferbench_tasks import settings
from inferbench_tasks.analysis.evaluations.varied import rows
from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.requests.digits import split

pytestmark = pytest.mark.integration

SAMPLES = 60
YAML = f"""\
name: varied
model: {{kind: file, path: model.onnx}}
requests: {{kind: random, samples: 8}}
serve: {{backend: onnxruntime}}
evaluate:
  dataset: digits-png
  samples: {SAMPLES}
  vary:
    crop: [0.5]
    normalise: [none]
    dtype: [uint8]
    layout: [nhwc]
    colour_order: [bgr]
"""


def nearest_mean() -> onnx.ModelProto:
    """A classifier of pictures 3 x 8 x 8 in [0, 1]: the digit whose mean of the training samples is nearest."""
    parts = split()
    means = np.stack([parts.train[parts.train_labels == digit].mean(axis=0).ravel() for digit in range(10)])
    # Of three equal colours; 2 x.m - m.m is largest where |x - m| is smallest.
    weights = np.tile(2 * means / 3, 3).astype(np.float32)
    bias = -(means**2).sum(axis=1).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["input"], ["flat"]),
            helper.make_node("Gemm", ["flat", "weights", "bias"], ["scores"], transB=1),
        ],
        "nearest-mean",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def run(folder: Path, perfdb_uri: str, text: str) -> subprocess.CompletedProcess[str]:
    """The command as a user gives it."""
    file = folder / "varied.yaml"
    file.write_text(text)
    onnx.save(nearest_mean(), folder / "model.onnx")
    env = {name: value for name, value in os.environ.items() if name != MODE}
    env |= {settings.PERFDB_URI: perfdb_uri, settings.DATA_DIR: str(folder / "data")}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(file), "--inline", "-o", "json"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)


def test_what_each_change_does_is_in_the_result(tmp_path: Path, perfdb: PerfDB, perfdb_uri: str) -> None:
    """Grey digits in another order of colours are the same inputs, and get the same answers; other changes make others.
    Every sample of every variant is kept, and the table's figures follow from these rows and the labels.
    """
    done = run(tmp_path, perfdb_uri, YAML)
    assert done.returncode == 0, done.stderr + done.stdout
    (ran,) = json.loads(done.stdout)
    result = perfdb.get_result(ran["run_id"])
    assert result.valid
    manifest = result.extensions["lock"]["data"]["evaluation"]["manifest"]
    assert (manifest["name"], manifest["version"]) == ("digits-png", "1.1.0")
    evaluation = result.extensions["evaluation"]
    plain, *variants = rows(evaluation)
    by_name = {row["variant"]: row for row in variants}
    same = by_name["colour_order: bgr"]
    assert (same["inputs_changed"], same["answers_changed"], same["difference"], same["p_value"]) == (
        0,
        0,
        0.0,
        1.0,
    )
    assert by_name["crop: 0.5"]["inputs_changed"] == SAMPLES
    assert by_name["layout: nhwc"]["answers_changed"] > 0
    assert all(row["preprocess_ms"] > 0 and row["withheld"] is None for row in (plain, *variants))
    assert plain["value"] == evaluation["under_load"]["measures"]["top1_ratio"]["value"]

    kept = stored_table(perfdb, evaluation["varied"]["answers"]).to_pylist()
    samples = stored_table(perfdb, evaluation["answers"]).to_pylist()
    assert len(kept) == 6 * SAMPLES
    labels = {row["sample"]: row["label"] for row in samples}
    for row in (plain, *variants):
        own = [each for each in kept if each["variant"] == row["variant"]]
        assert [each["sample"] for each in own] == [each["sample"] for each in samples]
        right = sum(each["answer"] == labels[each["sample"]] for each in own)
        assert row["value"] == pytest.approx(right / SAMPLES)
    plainly = {each["sample"]: each["answer"] for each in kept if each["variant"] == "plain"}
    assert plainly == {row["sample"]: row["answer"] for row in samples}
    assert "What the pre-processing changes" in Path(ran["report"]).read_text()


def test_a_change_that_the_model_does_not_know_starts_no_server(
    tmp_path: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """The model's pixels are in [0, 1] anyway: refused by its name, in the stage that makes the samples."""
    done = run(tmp_path, perfdb_uri, YAML.replace("normalise: [none]", "normalise: [unit]"))
    assert done.returncode != 0
    assert "evaluate.vary.normalise" in done.stderr + done.stdout
    assert "that is how the model's pixels are normalised anyway" in done.stderr + done.stdout
