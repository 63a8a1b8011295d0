"""Whether what a model answers in whole numbers and texts has to be what its source answers."""

from __future__ import annotations

from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.formats.computed_precision import computes_as
from inferbench_tasks.submission.schema import JobSpec


def exact_answers(job: JobSpec, source: ModelArtifact, served: ModelArtifact) -> bool:
    """Where the server computes in what the source model does, see ``computes_as``."""
    return computes_as(source, served, job.convert.precision, job.serve.device.kind)
