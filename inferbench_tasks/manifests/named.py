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
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.submission.abilities import NamedManifest


def known_here() -> Catalogue:
    """All manifests. An embedded PerfDB that was never made is not made for this."""
    uri, data_dir = settings.perfdb_uri(), settings.data_dir()
    if uri is None and not (data_dir / "perfdb").is_dir():
        return Catalogue.here(None)
    with PerfDB.connect(uri, data_dir) as db:
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
            return {"kind": "registry", "name": source.name, "version": source.version}
        if isinstance(source, UrlSource):
            reasons.append(f"{source.url} is not fetched: get the file, and name it with kind: file")
        elif (reason := _why_not(source, base_dir)) is None:
            words = {"kind": "file", "path": source.path, "format": source.format}
            return {name: word for name, word in words.items() if word is not None}
        else:
            reasons.append(reason)
    raise InputError(f"the model {manifest.name}@{manifest.version} can't be had here: {'; '.join(reasons)}")


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
