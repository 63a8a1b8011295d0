"""Jobs of stored results, of this version and of others."""

from __future__ import annotations

from typing import Any

import pytest

from inferbench_tasks.perfdb.documents import Provenance
from inferbench_tasks.training.diagnosis.measured import diagnose
from inferbench_tasks.training.diagnosis.observation import of_result
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.report.compose import sections
from inferbench_tasks.training.result import TrainingResult
from inferbench_tasks.training.stored_job import fields_of, has_job, job_of, step_s, stored
from tests.unit.training.report.results import view

JOB: dict[str, Any] = {
    "kind": "training", "name": "x", "data": {"kind": "digits"}, "train": {"batch_size": 8, "benchmark": "inference"},
}  # fmt: skip


def with_job(fields: dict[str, Any] | None) -> TrainingResult:
    return view("a").result.model_copy(
        update={"provenance": Provenance.model_validate({"job": fields} if fields else {})}
    )


def test_a_step_is_the_samples_of_all_ranks_by_their_rate() -> None:
    """8 samples by 800 samples/s are 10 ms; on three processes of two devices each 8 are 60 ms of that rate."""
    assert step_s(with_job(JOB)) == pytest.approx(0.010)
    ranks = {"count": 2, "processes": 3, "strategy": "ddp"}
    assert step_s(with_job({**JOB, "devices": ranks})) == pytest.approx(0.060)
    passes = {"benchmark": "smooth_inference", "batch_size": 8, "passes": 5}
    assert step_s(with_job({**JOB, "train": passes})) == pytest.approx(0.050)
    assert step_s(with_job(None)) is None


@pytest.mark.parametrize(
    "other",
    [
        {**JOB, "sharding": "zero3"},
        {**JOB, "data": {"kind": "video"}},
        {**JOB, "model": {"name": "network-of-a-package"}},
    ],
)
def test_a_job_of_another_version_breaks_neither_diagnosis_nor_report(other: dict[str, Any]) -> None:
    """A field, a value and a network that are not known here: it is said, and the other runs are shown."""
    result = with_job(other)
    assert has_job(result) and job_of(result) is None and of_result(result) is None
    assert "its job is of another version" in diagnose(result).sentence
    good = view("b")
    views = [type(good)("a", fields_of(result), result, "a"), good]
    shown = sections(views, [(view, []) for view in views], [(views[0], diagnose(result))])
    assert {section.title for section in shown} >= {"Steps", "Phases"}
    assert not has_job(with_job(None)) and "too few steps" in diagnose(with_job(None)).sentence


def test_what_the_version_before_does_not_know_is_left_out_where_it_says_nothing_new() -> None:
    """Trainer, hosts and devices by name; each stays where it was asked for, and comes back on reading."""
    fields = stored(TrainingJob.model_validate(JOB))
    assert (
        "on_devices" not in fields and "trainer" not in fields["train"] and "hosts" not in fields["devices"]
    )
    assert "flush_denormals" not in fields["train"]
    assert job_of(with_job(fields)) == TrainingJob.model_validate(JOB)
    asked = {**JOB, "train": {"trainer": "own"}, "on_devices": ["a.cpu-0"]}
    fields = stored(TrainingJob.model_validate(asked))
    assert fields["train"]["trainer"] == "own" and fields["on_devices"] == ["a.cpu-0"]
    both = [TrainingJob.model_validate(JOB).model_dump(mode="json"), stored(TrainingJob.model_validate(JOB))]
    assert fields_of(with_job(both[0])) == fields_of(with_job(both[1])) == both[0]
    assert fields_of(with_job(None)) == {}
