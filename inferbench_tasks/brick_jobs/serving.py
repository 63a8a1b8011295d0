"""A model of a list as a job of kind serving: how the stages that make, convert and cut models are asked."""

from __future__ import annotations

from inferbench_tasks.brick_jobs.inside.opened import job_of
from inferbench_tasks.brick_jobs.job import BricksJob
from inferbench_tasks.brick_jobs.members import entries_of
from inferbench_tasks.submission.schema import JobSpec


def serving_job(job: BricksJob, at: int | None = None) -> JobSpec:
    """The job whose model is that of this part, or that of the place ``at``; nothing of it is served."""
    assert job.part is not None
    entry = entries_of(job.models)[job.part.at if at is None else at]
    return job_of(job.name, entry.model, job.user, precision=job.bricks.precision)
