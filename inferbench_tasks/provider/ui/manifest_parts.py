"""What the page of a manifest tells of it: what it needs and to what that leads here, its sources with their hashes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from inferbench_tasks.backends.base import BACKENDS, Backend
from inferbench_tasks.contracts.versions import Requirement
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.manifests.catalogue import Catalogue
from inferbench_tasks.manifests.kinds.base import Manifest
from inferbench_tasks.manifests.kinds.dataset import DatasetManifest
from inferbench_tasks.manifests.kinds.framework import ContainerImage, FrameworkManifest, Here, PlaceSpec
from inferbench_tasks.manifests.kinds.model import (
    BuiltInSource,
    FileSource,
    ModelManifest,
    RegistrySource,
    SourceSpec,
)
from inferbench_tasks.manifests.kinds.stack import StackManifest
from inferbench_tasks.registry import derived


@dataclass(frozen=True)
class Need:
    """A constraint on another manifest: ``id`` of the newest that fits and exists here, else the ``problem``; without
    both, any will do."""

    kind: str
    asked: str
    id: str | None = None
    problem: str = ""


@dataclass(frozen=True)
class Source:
    """Where a thing comes from, or where it runs; ``pins``: hashes and digests by which it is that and nothing else."""

    kind: str
    what: str
    pins: list[str] = field(default_factory=list)


def needs(catalogue: Catalogue, manifest: Manifest) -> Iterator[Need]:
    """The constraints of a model or a stack, resolved as a submission's are that names it."""
    if isinstance(manifest, ModelManifest | StackManifest) and manifest.framework is not None:
        if isinstance(manifest, StackManifest) and manifest.settings.get("launcher") == "container":
            yield _framework_in(catalogue, manifest.framework, manifest.settings.get("image"))
        else:
            backend = manifest.backend if isinstance(manifest, StackManifest) else None
            yield _framework(catalogue, manifest.framework, backend)
    if isinstance(manifest, ModelManifest) and manifest.dataset is not None:
        wanted = Requirement.parse(manifest.dataset)
        try:
            found = catalogue.resolve("dataset", wanted.name, wanted.constraint.text).manifest
        except InputError as error:
            yield Need("dataset", manifest.dataset, problem=str(error))
        else:
            yield Need("dataset", manifest.dataset, found.id)


def _framework(catalogue: Catalogue, asked: str, backend: str | None) -> Need:
    """Where the backend runs; else one that is made on first use, of a backend that runs other versions of it."""
    wanted = Requirement.parse(asked)
    name, constraint = wanted.name, wanted.constraint.text
    server = None
    try:
        server = BACKENDS.load(backend) if backend is not None else None
        return Need("framework", asked, catalogue.framework_for(name, constraint, server).id)
    except (InferBenchError, ImportError) as error:  # what its environment is made from may not be here
        problem = str(error)
    if server is not None and server.other_versions and server.package == name:
        with suppress(InputError):
            return Need("framework", asked, catalogue.runtime_for(name, constraint).id)
    return Need("framework", asked, problem=problem)


def _framework_in(catalogue: Catalogue, asked: str, image: str | None) -> Need:
    """What the image of a stack brings; what is here serves nothing then."""
    wanted = Requirement.parse(asked)
    try:
        found = catalogue.framework_in(wanted.name, wanted.constraint.text, image)
    except InputError as error:
        return Need("framework", asked, problem=str(error))
    return Need("framework", asked, found.id if found is not None else None)


def sources(manifest: Manifest) -> Iterator[Source]:
    """Of a model where it is had from, of a framework where it runs, of a data set its files and samples."""
    if isinstance(manifest, ModelManifest):
        yield from map(_of_model, manifest.sources)
    elif isinstance(manifest, FrameworkManifest):
        yield from map(_of_framework, manifest.runs)
    elif isinstance(manifest, DatasetManifest):
        digest = manifest.samples_sha256
        yield Source("samples", manifest.source, [f"SHA-256 {digest}"] if digest else [])
        for file, sha256 in manifest.files.items():
            yield Source("file", file, [f"SHA-256 {sha256}"])


def _of_model(source: SourceSpec) -> Source:
    if isinstance(source, BuiltInSource):
        fields = source.model.model_dump(mode="json", exclude_defaults=True)
        what = ", ".join(f"{name} {value}" for name, value in fields.items())
        pin = source.package
        return Source("built in", what, [f"{pin.name} {pin.version}: SHA-256 {pin.sha256}"] if pin else [])
    if isinstance(source, FileSource):
        return Source("file", source.path, [f"SHA-256 {source.sha256}"])
    if isinstance(source, RegistrySource):
        return Source("model repository", f"{source.name}, version {source.version}")
    hashes = {"SHA-256": source.sha256, "MD5": source.md5}
    return Source("address", source.url, [f"{name} {value}" for name, value in hashes.items() if value])


def _of_framework(place: PlaceSpec) -> Source:
    if isinstance(place, Here):
        return Source("this environment", place.package, [f"SHA-256 {each}" for each in place.hashes])
    if isinstance(place, ContainerImage):
        return Source("container", f"{place.image}, {place.arch}, {place.accelerator}", [place.digest])
    if place.lock_sha256 is not None:
        return Source("environment", place.name, [f"lock: SHA-256 {place.lock_sha256}"])
    lines = [line.split() for line in place.packages]
    pins = [f"{pin}: SHA-256 {each.partition('sha256:')[2]}" for pin, *hashes in lines for each in hashes]
    return Source("environment", place.name, pins)


def runs_on(manifest: Manifest) -> str | None:
    """The query for runs that a framework's version served; None of what serves nothing here.

    Builds of one version (``2.13.0+cpu``) are that version.
    """
    if not isinstance(manifest, FrameworkManifest):
        return None
    backends = [kind for kind in BACKENDS if _package(kind) == manifest.name]
    version = manifest.version
    return f"backend={','.join(backends)} backend_version={version},{version}+*" if backends else None


def _package(kind: str) -> str | None:
    """What a backend serves with, where its version is that of its results; None of all others, and of a package's that
    can't be used."""

    def package(variant: type[Backend]) -> str | None:
        backend = derived(variant, Backend)
        return backend.package if backend.versioned_by_package else None

    try:
        return BACKENDS.told(kind, package)
    except InferBenchError:
        return None
