"""A stored run as a submission, of every kind; and the files that it used."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import Provenance, ResultBase
from inferbench_tasks.pipelines.base import PIPELINES, job_of
from inferbench_tasks.pipelines.replay import require_files, submission_of
from inferbench_tasks.submission.sweep import expand
from tests.unit.analysis.builders import job_spec, records, view
from tests.unit.training.report.results import view as training_view

JOBS: dict[str, dict[str, Any]] = {
    "training": {
        "kind": "training",
        "name": "t",
        "data": {"kind": "digits"},
        "train": {"batch_size": 8},
        "timing": ["synchronised", "jade"],
        "devices": {"processes": 2, "strategy": "ddp"},
    },
    "bricks": {"kind": "bricks", "name": "b", "models": [{"model": {"kind": "zoo", "name": "mlp"}}]},
}


def stored(job: dict[str, Any]) -> ResultBase:
    """Any result that holds such a job."""
    result = training_view("a").result
    return result.model_copy(update={"provenance": Provenance(**{"job": job})})


def serving(**changes: Any) -> ResultBase:
    document = view(records(5.0), **changes).result
    assert document is not None
    return document


def test_a_serving_job_comes_back_as_it_was() -> None:
    """What the first run's job said, tuples and defaults included."""
    again = submission_of(serving(job={"load__batch_size": 8, "tags": ["a", "b"]}))
    assert again.model_dump(exclude={"sweep"}) == job_spec(load__batch_size=8, tags=["a", "b"]).model_dump()


def test_a_training_comes_back_with_the_digest_of_its_history() -> None:
    """Read from PerfDB it is the same job, so that its runs are of one history."""
    job = job_of(JOBS["training"])
    (again,) = expand(submission_of(stored(job.model_dump(mode="json"))))
    assert again.spec == job


def test_a_part_of_bricks_comes_back_as_all_parts_measured_anew() -> None:
    """A model, the cutting and a shard; times that were stored would agree with themselves."""
    submission = PIPELINES.load("bricks").submission.model_validate(JOBS["bricks"])
    model = expand(submission)[0].spec
    again = submission_of(stored(model.model_dump(mode="json")))
    assert [job.spec.part.role for job in expand(again)] == ["model", "cut", "shard"]  # type: ignore[attr-defined]
    assert again.measure.reuse == "never"  # type: ignore[attr-defined]


def test_a_result_without_its_job_is_refused() -> None:
    """A result of an import, or of long ago."""
    with pytest.raises(InputError, match="does not hold its job"):
        submission_of(stored({}))


def test_files_whose_content_nobody_wrote_down_are_refused(tmp_path: Path) -> None:
    """A model's file and a folder of images may be others today."""
    submission = submission_of(serving(job={"model": {"kind": "file", "path": "m.onnx"}}))
    with pytest.raises(InputError, match=r"what 'm.onnx' \(model.path\) held was not written down"):
        require_files("r", submission, tmp_path)
    data = {"kind": "folder", "path": "images", "samples": 4}
    with pytest.raises(InputError, match="data.path"):
        require_files("r", submission_of(stored({**JOBS["training"], "data": data})), tmp_path)


def test_a_file_with_its_digest_has_to_be_there_as_it_was(tmp_path: Path) -> None:
    """The user's module: missing, changed, and the same."""
    content = b"def build(): ...\n"
    job = {
        **JOBS["training"],
        "model": {"kind": "file", "name": "own", "module": "net.py"},
        "files": {"net.py": hashlib.sha256(content).hexdigest()},
    }
    submission = submission_of(stored(job))
    with pytest.raises(InputError, match="'net.py' does not exist"):
        require_files("r", submission, tmp_path)
    (tmp_path / "net.py").write_bytes(b"changed")
    with pytest.raises(InputError, match="another content"):
        require_files("r", submission, tmp_path)
    (tmp_path / "net.py").write_bytes(content)
    require_files("r", submission, tmp_path)
