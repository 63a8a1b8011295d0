"""Models that take exactly so many samples in each call: what may be asked of them, and what a plan knows of it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from inferbench_tasks.backends.base import BACKENDS, Backend
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.formats.route import possible_precisions
from inferbench_tasks.modelrepo.build import made_before
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.submission.model import FileModel, ModelSpec, RegistryModel, ZooModel
from inferbench_tasks.submission.schema import JobSpec
from inferbench_tasks.submission.sweep import Job


def check_batch(job: JobSpec, backend: type[Backend], model: ModelArtifact) -> None:
    """InputError where a model that takes exactly so many samples in each call is asked for others."""
    size = model.batch_size
    if size is None:
        return
    what = f"{model.name} takes exactly {size} sample(s) in each call ({'; '.join(model.adapted)})"
    if not backend.fixed_batches:
        raise InputError(f"{what}, and {backend.kind} {needs_free(model)}", field="serve.backend")
    if job.serve.batching is not None:
        raise InputError(f"{what}: no requests can be joined; leave batching out", field="serve.batching")
    if job.evaluate is not None and size > 1:
        raise InputError(
            f"{what}, and evaluate asks each sample by itself, too; export the model with the same free first axis of "
            "every input, or leave evaluate out",
            field="evaluate",
        )
    if job.trace is not None and job.trace.batch_size not in (None, "load", size):
        raise InputError(
            f"{what}; leave it out, and requests are traced with so many", field="trace.batch_size"
        )
    if job.traffic.samples_per_request != size:
        raise InputError(f"{what}; set batch_size: {size}", field="load.batch_size")


def needs_free(model: ModelArtifact) -> str:
    """What a backend without ``fixed_batches`` does, and what helps a model that has its own batch."""
    kinds = takers(model.format)
    others = f", or take {' or '.join(kinds)}, at its batch of {model.batch_size}" if kinds else ""
    return f"serves models with a free batch; export the model with the same free first axis of every input{others}"


@lru_cache
def takers(model_format: str) -> tuple[str, ...]:
    """The backends that serve models of that format at the models' own batch."""
    kinds = []
    for kind in BACKENDS:
        try:
            backend = BACKENDS.load(kind)
        except InferBenchError:  # of a package that can't be imported, which its own use says
            continue
        fits = backend.fixed_batches and backend.streams != FORMATS.load(model_format).tensors
        if fits and any(possible_precisions(model_format, form) for form in backend.formats):
            kinds.append(kind)
    return tuple(kinds)


def remarks(jobs: Iterable[Job[Any]], base_dir: Path, data_dir: Path) -> list[str]:
    """What a plan says of its models' own batches, as far as they were inspected or run here before; reads no model.

    ``base_dir``: the folder of the submission's files. A job that would be refused is told with the reason.
    """
    known: dict[str, ModelArtifact | None] = {}
    served: dict[str, None] = {}
    refused: dict[str, int] = {}
    for job in jobs:
        if not isinstance(job.spec, JobSpec):
            continue
        key = repr(job.spec.model)
        if key not in known:
            known[key] = _known(job.spec.model, base_dir, data_dir)
        model = known[key]
        if model is None or model.batch_size is None:
            continue
        try:
            check_batch(job.spec, BACKENDS.load(job.spec.serve.backend), model)
        except InputError as error:
            refused[str(error)] = refused.get(str(error), 0) + 1
        else:
            why = "; ".join(model.adapted)
            served[f"{model.name} is served at its batch of {model.batch_size}, batching off: {why}"] = None
    return [
        *(
            f"{'One job' if count == 1 else f'{count} jobs'} would be refused: {why}"
            for why, count in refused.items()
        ),
        *served,
    ]


def _known(spec: ModelSpec, base_dir: Path, data_dir: Path) -> ModelArtifact | None:
    """What this data directory has of it; None where that is nothing, or its files can't be read (its run says why)."""
    if not isinstance(
        spec, FileModel | RegistryModel | ZooModel
    ):  # all others are generated, with a free batch
        return None
    try:
        return made_before(resolve(spec, base_dir), data_dir)
    except (
        InferBenchError,
        OSError,
        ImportError,
    ):  # no file, or a library that its cache goes by is not installed
        return None
