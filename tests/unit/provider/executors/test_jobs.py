"""A task's job as the policy sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from inferbench_tasks.abilities import INSTALLED
from inferbench_tasks.provider.executors.jobs import TaskRef, queued_job
from inferbench_tasks.scheduling.estimator import Estimator
from inferbench_tasks.scheduling.model import QueuedJob
from inferbench_tasks.submission.reader import read_submission
from inferbench_tasks.submission.sweep import expand

pytestmark = pytest.mark.airflow
FILE = Path(__file__).parents[4] / "configs" / "nightly" / "digits-onnxruntime.yaml"


@dataclass
class FakeCluster:
    """No history, no devices."""

    found: list[Any] = field(default_factory=list)

    def history(self, job: str) -> tuple[int, frozenset[str]]:
        return 1, frozenset()

    def devices(self) -> list[Any]:
        return self.found


def spec(dag_id: str, document: dict[str, Any], conf: dict[str, Any], estimator: Estimator) -> QueuedJob:
    ref = TaskRef(dag_id, "manual", 0, "serve")
    return queued_job(ref, document, conf, 0.0, estimator, FakeCluster())  # type: ignore[arg-type]


def test_a_night_is_not_taken_for_one_of_its_runs() -> None:
    """What single runs of some seconds teach shortens neither its estimate nor its limit, whatever its trigger asks."""
    from inferbench_tasks.provider.nightly.dag import job_document

    submission = read_submission(FILE, INSTALLED)
    night = job_document(submission)
    single = expand(submission)[0].spec.model_dump(mode="json")
    estimator = Estimator()
    run = spec("digits", single, {}, estimator)
    for _ in range(20):
        estimator.observe(run.spec_hash, 9.0)
    assert spec("digits", single, {}, estimator).est_s == pytest.approx(9, rel=0.2)
    usual = spec("nightly.digits", night, {}, estimator)
    assert usual.est_s >= night["expected_duration_s"] * 0.5
    assert usual.limit_s >= night["deadline_s"], "how many runs it takes shows only as it goes"
    assert spec("nightly.digits", night, {"pairs": 40}, estimator).est_s == pytest.approx(5 * usual.est_s)
