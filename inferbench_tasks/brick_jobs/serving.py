"""A model of a list as a job of kind serving: how the stages that make and convert models are asked."""

from __future__ import annotations

from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.members import entries_of
from inferbench_tasks.submission.schema import JobSpec

#: Samples that the converted model is compared on with its source.
CHECKED_SAMPLES = 4


def serving_job(job: BricksJob) -> JobSpec:
    """The job whose model is that of this part; nothing of it is served."""
    assert job.part is not None
    entry = entries_of(job.models)[job.part.at]
    return JobSpec.model_validate(
        {
            "name": job.name,
            "user": job.user,
            "model": entry.model.model_dump(mode="json"),
            "requests": {"samples": CHECKED_SAMPLES},
            "load": {"arrivals": {"kind": "single_stream"}},
        }
    )
