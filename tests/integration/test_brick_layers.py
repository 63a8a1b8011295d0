"""Bricks of more layers than a model has: refused before anything starts where it was cut before, on a real PerfDB."""

from __future__ import annotations

from pathlib import Path

import pytest

from inferbench_tasks import settings
from inferbench_tasks.brick_jobs.store import PerfDBResults
from inferbench_tasks.brick_jobs.stored import predicted
from inferbench_tasks.errors import InputError, SubmissionError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.running.cluster_abilities import of_cluster, of_cluster_here, of_machine_here
from inferbench_tasks.submission.abilities import Abilities
from inferbench_tasks.submission.reader import read_submission
from tests.integration.test_brick_predict import SETTING, cut
from tests.unit.bricks.graphs import residual

pytestmark = pytest.mark.integration
YAML = """\
kind: bricks
name: x
models:
  - model: {kind: zoo, name: digits}
  - model: {kind: file, path: ours.onnx}
bricks: {granularity: %s}
"""


def test_more_layers_than_a_known_model_has_are_refused_with_their_line(
    tmp_path: Path, data_dir: Path, perfdb: PerfDB, perfdb_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the system, by who submits and by who runs it here; as many as it has, ``whole``, another content of the file,
    and a system whose PerfDB is away are let through."""
    monkeypatch.setenv(settings.PERFDB_URI, perfdb_uri)
    file = tmp_path / "x.yaml"
    one = cut(residual(tmp_path / "ours.onnx"), data_dir)

    def problems(granularity: object, abilities: Abilities) -> list[str]:
        file.write_text(YAML % granularity)
        try:
            read_submission(file, abilities)
        except SubmissionError as error:
            return [str(problem).removeprefix(f"{tmp_path}/") for problem in error.problems]
        return []

    system = of_cluster(perfdb)
    assert problems(1000, system) == []  # it was never cut
    PerfDBResults(perfdb, SETTING).put_cuts([one])
    layers = one.layers
    said = f"bricks of 1000 layers can't be cut from ours.onnx, which has {layers}; allowed: 1 to {layers}, or whole"
    for abilities in (system, of_cluster_here(data_dir), of_machine_here(data_dir)):
        assert problems(1000, abilities) == [f"x.yaml:6: bricks.granularity: {said}"]
    assert problems(f"[1, {layers + 1}]", system)
    assert problems("1}\nsweep: {bricks.granularity: [1, 1000]", system) == [
        f"x.yaml:7: sweep.bricks.granularity: {said}"
    ]
    for fits in (f"[1, {layers}]", "whole", "1"):
        assert problems(fits, system) == []
    monkeypatch.setenv(settings.PERFDB_URI, "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=100")
    assert problems(1000, of_machine_here(data_dir)) == []
    residual(tmp_path / "ours.onnx", seed=7)
    assert problems(1000, system) == []


def test_a_prediction_with_more_layers_than_the_model_has_says_so(
    tmp_path: Path, data_dir: Path, perfdb: PerfDB
) -> None:
    """Instead of that it was never cut like this, which would send one off to cut it."""
    one = cut(residual(tmp_path / "ours.onnx"), data_dir)
    PerfDBResults(perfdb, SETTING).put_cuts([one])
    with pytest.raises(
        InputError, match=f"bricks of 50 layers can't be cut from ours, which has {one.layers};"
    ):
        predicted(perfdb, "ours", granularity="50")
    with pytest.raises(InputError, match="'ours' was never cut at granularity 2"):
        predicted(perfdb, "ours", granularity="2")
