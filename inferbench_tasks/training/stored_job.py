"""The job of a stored training, as far as this version can read it."""

from __future__ import annotations

from pydantic import ValidationError

from inferbench_tasks.training import networks
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.result import TrainingResult


def has_job(result: TrainingResult) -> bool:
    """Whether it was stored with its job, readable or not."""
    return bool(result.provenance.model_dump().get("job"))


def job_of(result: TrainingResult) -> TrainingJob | None:
    """None of a result without its job, or whose job has fields, values or a network that this version does not know:
    another version's run is stored beside ours and breaks no list or report.
    """
    fields = result.provenance.model_dump().get("job")
    if not fields:
        return None
    try:
        job = TrainingJob.model_validate(fields)
    except ValidationError:
        return None
    if job.model.kind == "network" and job.model.name not in networks.NETWORKS:
        return None
    return job


def step_s(result: TrainingResult) -> float | None:
    """Seconds of a step of the epochs without instruments, with all that holds it up: the samples of a step of all
    ranks by the samples/s of all ranks. None without a rate, or a job that tells how many samples a step has.
    """
    rate = result.summary.bare["samples_per_s"] if result.summary else None
    job = job_of(result) if rate else None
    return job.samples_per_step * job.devices.ranks / rate if job and rate else None
