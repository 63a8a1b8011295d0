"""From a submission's ``model:`` to where that model comes from."""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks.contracts.models import ModelSource
from inferbench_tasks.errors import InputError
from inferbench_tasks.modelrepo.zoo import zoo_source
from inferbench_tasks.submission.model import (
    FileModel,
    ManifestModel,
    ModelSpec,
    RegistryModel,
    StandInModel,
    ZooModel,
)


def resolve(spec: ModelSpec, base_dir: Path) -> ModelSource:
    """The source of a model. Raises UnknownKindError or InputError; fetches and imports nothing heavy."""
    if isinstance(spec, ZooModel):
        return zoo_source(spec)
    if isinstance(spec, ManifestModel):
        raise InputError(f"the manifest {spec.name} is resolved when a submission is read", field="model")
    if isinstance(spec, FileModel):
        from inferbench_tasks.modelrepo.file import FileSource

        return FileSource(spec, base_dir)
    if isinstance(spec, RegistryModel):
        from inferbench_tasks.modelrepo.registered import RegisteredSource

        return RegisteredSource(spec, lambda origin: resolve(origin, base_dir))
    if isinstance(spec, StandInModel):
        from inferbench_tasks.modelrepo.stand_in import StandInSource

        return StandInSource(spec)
    from inferbench_tasks.modelrepo.canonical.source import CanonicalSource

    return CanonicalSource(spec)
