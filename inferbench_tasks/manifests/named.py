"""Manifests for who reads a submission: what is known here, and where a model by manifest is had from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from inferbench_tasks import settings
from inferbench_tasks.errors import InputError
from inferbench_tasks.manifests.catalogue import Catalogue
from inferbench_tasks.manifests.kinds.base import Manifest
from inferbench_tasks.manifests.kinds.model import (
    BuiltInSource,
    FileSource,
    ModelManifest,
    RegistrySource,
    UrlSource,
)
from inferbench_tasks.manifests.reading import of_plain
from inferbench_tasks.modelrepo.repository import ModelRepository
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.abilities import NamedManifest


def known_here() -> Catalogue:
    """All manifests. An embedded PerfDB that was never made is not made for this."""
    if not _has_perfdb():
        return Catalogue.here(None)
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        return Catalogue.here(db)


def named(manifest: Manifest) -> NamedManifest:
    """As plain values."""
    return NamedManifest(manifest.kind, manifest.name, manifest.version, manifest.digest, manifest.content())


def source_of(model: NamedManifest, base_dir: Path | None) -> dict[str, Any]:
    """``model`` of a submission for the first source that can be had; InputError, which says why each can't."""
    manifest = of_plain(dict(model.content), f"{model.kind}:{model.name}@{model.version}")
    assert isinstance(manifest, ModelManifest)
    reasons = []
    for source in manifest.sources:
        if isinstance(source, BuiltInSource):
            return source.model.model_dump(mode="json", exclude_none=True)
        if isinstance(source, RegistrySource):
            if (reason := _not_registered(source)) is None:
                return {"kind": "registry", "name": source.name, "version": source.version}
            reasons.append(reason)
        elif isinstance(source, UrlSource):
            reasons.append(f"{source.url} is not fetched: get the file, and name it with kind: file")
        elif (reason := _why_not(source, base_dir)) is None:
            words = {"kind": "file", "path": source.path, "format": source.format}
            return {name: word for name, word in words.items() if word is not None}
        else:
            reasons.append(reason)
    raise InputError(f"the model {manifest.name}@{manifest.version} can't be had here: {'; '.join(reasons)}")


def _has_perfdb() -> bool:
    return settings.perfdb_uri() is not None or (settings.data_dir() / "perfdb").is_dir()


def _not_registered(source: RegistrySource) -> str | None:
    """Why the model repository does not have it; None if it has."""
    if not _has_perfdb():
        return f"{source.name} is a model of the model repository, and there is no PerfDB here"
    with PerfDB.connect(settings.perfdb_uri(), settings.data_dir()) as db:
        try:
            ModelRepository(db).show(source.name, source.version)
        except InputError as error:
            return str(error)
    return None


def _why_not(source: FileSource, base_dir: Path | None) -> str | None:
    """Why a file is not the one that is meant; None if it is."""
    if base_dir is None:
        return f"{source.path} is a file, and this submission has no folder of its own"
    root = base_dir.resolve()
    path = (root / source.path).resolve()
    if not path.is_relative_to(root):
        return f"{source.path} is a link that leads out of the submission's folder"
    if not path.is_file():
        return f"{source.path} is not in the submission's folder"
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != source.sha256:
        return f"{source.path} has the SHA-256 {digest[:12]}, the manifest says {source.sha256[:12]}"
    return None
