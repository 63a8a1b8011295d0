"""``evaluate.vary`` with a real server: from the command to the table, on pictures as files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.analysis.evaluations.varied import rows
from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.perfdb.store import PerfDB

pytestmark = pytest.mark.integration

SAMPLES = 60
YAML = f"""\
name: varied
model: {{kind: canonical, family: cnn, layers: 1, channels: 4, image_size: 16, training: {{epochs: 2}}}}
serve: {{backend: onnxruntime}}
evaluate:
  dataset: digits-png
  samples: {SAMPLES}
  vary:
    resize: [nearest]
    normalise: [none]
    dtype: [uint8]
    layout: [nhwc]
    colour_order: [bgr]
"""


def run(folder: Path, perfdb_uri: str, text: str) -> subprocess.CompletedProcess[str]:
    """The command as a user gives it."""
    file = folder / "varied.yaml"
    file.write_text(text)
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
    assert by_name["resize: nearest"]["inputs_changed"] == SAMPLES
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
