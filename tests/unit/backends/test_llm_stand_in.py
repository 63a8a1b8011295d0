"""The stand-in as a backend: what it is started with, and what its results say."""

from __future__ import annotations

import json
from pathlib import Path

from inferbench_tasks.backends.base import Deployment
from inferbench_tasks.backends.llm_stand_in import LlmStandIn
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.contracts.stand_in_faults import StandInFaults
from inferbench_tasks.modelrepo.stand_in import FILE, StandInSource
from inferbench_tasks.submission.model import StandInModel
from inferbench_tasks.submission.schema import ServeSpec


def deployment(folder: Path, model: StandInModel) -> Deployment:
    """Of a stand-in as a submission has it."""
    StandInSource(model).make(folder, Watch())
    artifact = ModelArtifact(
        name="m", framework="llm_stand_in", format="llm_stand_in", precision="fp32", path=str(folder / FILE),
        digest="0", inputs=(), outputs=(),
    )  # fmt: skip
    return Deployment("r", artifact, ServeSpec(backend="llm_stand_in"), folder, folder, port=1234)


def test_faults_reach_the_server_and_every_result(tmp_path: Path) -> None:
    """Its options, its settings, its label; and its model has another name."""
    model = StandInModel(kind="llm_stand_in", faults=StandInFaults(dies_after_answers=9))
    backend = LlmStandIn()
    prepared = backend.prepare(deployment(tmp_path, model))
    argv = prepared.launch.argv
    assert json.loads(argv[argv.index("--faults") + 1]) == {"dies_after_answers": 9}
    assert prepared.settings["faults"] == {"dies_after_answers": 9}
    assert "WITH FAULTS (killed after 9 answers)" in backend.label()
    assert StandInSource(model).name == "llm-stand-in-with-faults"


def test_without_faults_nothing_is_said_of_any(tmp_path: Path) -> None:
    """As before there were some."""
    model = StandInModel(kind="llm_stand_in")
    backend = LlmStandIn()
    prepared = backend.prepare(deployment(tmp_path, model))
    assert "--faults" not in prepared.launch.argv and "faults" not in prepared.settings
    assert "FAULTS" not in backend.label() and StandInSource(model).name == "llm-stand-in"
