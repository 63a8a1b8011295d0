"""The job of a stored training, as far as this version can read it."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from inferbench_tasks.dotted import value_at
from inferbench_tasks.training import networks
from inferbench_tasks.training.job import TrainingJob
from inferbench_tasks.training.result import TrainingResult

#: Fields of this version that its results leave out where they say what there was before, so that the version of before
#: can read them -> that value.
LEFT_OUT: Final = {
    "train.trainer": "torchrun", "train.flush_denormals": False, "devices.hosts": 1, "on_devices": [],
}  # fmt: skip


def stored(job: TrainingJob) -> dict[str, Any]:
    """The job as a result keeps it."""
    fields = job.model_dump(mode="json")
    for path, usual in LEFT_OUT.items():
        block, _, name = path.rpartition(".")
        holder = fields[block] if block else fields
        if holder[name] == usual:
            del holder[name]
    return fields


def fields_of(result: TrainingResult) -> dict[str, Any]:
    """What a result keeps of its job, with the usual values of fields that came later: one job, the same fields,
    whichever version stored it. {} of a result without its job.
    """
    fields: dict[str, Any] = {
        name: dict(value) if isinstance(value, dict) else value
        for name, value in (result.provenance.model_dump().get("job") or {}).items()
    }
    if not fields:
        return fields
    for path, usual in {**LEFT_OUT, **TrainingJob.newer}.items():
        block, _, name = path.rpartition(".")
        holder = value_at(fields, block) if block else fields
        if isinstance(holder, dict):
            holder.setdefault(name, usual)
    return fields


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
