"""The user's data in COCO's and SQuAD's layouts with a real server: from the command to the figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inferbench_tasks import settings
from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.contracts.verdict import MODE
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB
from tests.layouts import answering, coco, detecting, squad, tokenizer

pytestmark = pytest.mark.integration

HEAD = """\
name: layouts
model: {kind: file, path: model.onnx}
requests: {kind: random, samples: 8}
serve: {backend: onnxruntime}
"""


def ran(folder: Path, perfdb: PerfDB, perfdb_uri: str, evaluate: str, head: str = HEAD) -> ResultDocument:
    """The result of the one run of this submission, by the command as a user gives it."""
    file = folder / "layouts.yaml"
    file.write_text(head + f"evaluate: {evaluate}\n")
    env = {name: value for name, value in os.environ.items() if name != MODE}
    env |= {settings.PERFDB_URI: perfdb_uri, settings.DATA_DIR: str(folder / "data")}
    command = [sys.executable, "-m", "inferbench_tasks.cli.main", "run", str(file), "--inline", "-o", "json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr + done.stdout
    (row,) = json.loads(done.stdout)
    return perfdb.get_result(row["run_id"])


def measures(result: ResultDocument) -> dict[str, Any]:
    """The values of what was asked."""
    found = result.extensions["evaluation"]["under_load"]["measures"]
    return {name: quality["value"] for name, quality in found.items()}


def test_boxes_of_cocos_layout_are_judged(tmp_path: Path, perfdb: PerfDB, perfdb_uri: str) -> None:
    """One of two boxes is found, in pixels of the model's input, a crowd is neither right nor wrong, and a picture
    without boxes is asked like the others; both objects are small."""
    coco(tmp_path / "coco")
    boxes = np.zeros((43, 2, 6))
    boxes[9] = [[0, 0, 32, 32, 0.9, 0], [36, 36, 60, 60, 0.8, 0]]
    boxes[42, 0] = [0, 0, 10, 10, 0.7, 2]
    detecting(tmp_path / "model.onnx", boxes)
    result = ran(tmp_path, perfdb, perfdb_uri, "{dataset: coco, path: coco}")
    values = measures(result)
    assert result.valid
    assert values["average_precision"] == values["average_precision_small"] == pytest.approx(1 / 2)
    evaluation = result.extensions["evaluation"]
    assert "of that size" in evaluation["under_load"]["left_out"]["average_precision_large"]
    assert (evaluation["samples"], evaluation["data"]["boxes"], evaluation["data"]["without_boxes"]) == (
        3,
        2,
        1,
    )


def test_answers_to_squads_questions_are_judged_in_words(
    tmp_path: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """Of three questions one has another right answer, and one none; each answer stands with its sample."""
    squad(tmp_path / "dev.json")
    tokenizer(tmp_path / "tokenizer.json")
    answering(tmp_path / "model.onnx", {"ada": 5, "[CLS]": 1}, {"lovelace": 5})
    spans = "{tokenizer: tokenizer.json, max_tokens: 32}"
    result = ran(tmp_path, perfdb, perfdb_uri, f"{{dataset: squad, path: dev.json, spans: {spans}}}")
    assert result.valid
    values = measures(result)
    assert values["exact_match_ratio"] == pytest.approx(1 / 3)
    assert values["answer_f1"] == pytest.approx(1 / 3)
    evaluation = result.extensions["evaluation"]
    assert evaluation["data"]["spans"]["no_answer_margin"] == 0.0
    kept = stored_table(perfdb, evaluation["answers"]).to_pylist()
    assert [row["answer_text"] for row in kept] == ["Ada Lovelace"] * 3
    assert [row["parts_exact_match_ratio"] for row in kept] == [[1.0], [0.0], [0.0]]


def test_processors_make_inputs_and_boxes_of_a_raw_detector(
    tmp_path: Path, perfdb: PerfDB, perfdb_uri: str
) -> None:
    """A picture's file becomes the input by ``before``; of its two boxes of one object ``after`` leaves one, so that
    all that is to be found is found. The model's own outputs are compared as they are.
    """
    coco(tmp_path / "coco")
    table = np.zeros((43, 2, 7))
    table[8] = [[0, 0, 32, 32, 0.9, 0.1, 0.1], [1, 1, 33, 33, 0.6, 0.1, 0.1]]
    table[41, 0] = [16, 16, 48, 48, 0.1, 0.1, 0.8]
    detecting(tmp_path / "model.onnx", table)
    image = "{kind: image, settings: {size: 64, squeezed: true, mean: 1.0, std: 255.0}}"
    nms = "{kind: nms, settings: {min_score: 0.05, max_detections: 5}}"
    processors = f"processors: {{before: [{image}], after: [{nms}]}}"
    requests = "requests: {kind: files, path: coco/val2017, samples: 3}"
    head = HEAD.replace("requests: {kind: random, samples: 8}", f"{requests}\n{processors}")
    result = ran(tmp_path, perfdb, perfdb_uri, "{dataset: coco, path: coco}", head)
    assert result.valid
    values = measures(result)
    assert values["average_precision"] == pytest.approx(1.0) and values["largest_difference_ratio"] < 1e-6
