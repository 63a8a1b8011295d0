"""Manifests of the frameworks that run here: in InferBench's environment, or in one that a backend makes.

They say what this installation has; another one has other versions under the same names. None has a container's image:
InferBench publishes none, what is built by ``docker/`` has another digest on each machine, and the one image of others
that a backend takes (``tensorflow/serving``) is named by a tag, which can move. Whoever knows a digest writes it into a
manifest of theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from inferbench_tasks.backends import other_runtimes
from inferbench_tasks.backends.base import BACKENDS, Backend
from inferbench_tasks.backends.environments import Environment
from inferbench_tasks.cluster.host import FrameworkVersion
from inferbench_tasks.contracts.versions import any_version
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.manifests.built_in.models import PACKAGES
from inferbench_tasks.manifests.kinds.framework import FrameworkManifest
from inferbench_tasks.manifests.pins import hashes_of, installed_version, normal, pins_of
from inferbench_tasks.registry import derived


def frameworks() -> Iterator[FrameworkManifest]:
    """Of each version of each framework, with all places where it runs."""
    backends = [backend for kind in BACKENDS if (backend := _load(kind)) is not None]
    names = {*PACKAGES.values(), *(backend.package for backend in backends if backend.package)}
    places: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in sorted(names):
        if (installed := installed_version(name)) is not None:
            here = {"kind": "here", "package": name, "hashes": list(hashes_of(name, installed))}
            places.setdefault((name, _public(installed)), []).append(here)
    for environment in _environments(backends):
        assert environment.lock is not None
        digest = hashlib.sha256(environment.lock.read_bytes()).hexdigest()
        pins = pins_of(environment.lock)
        for name in sorted(names):
            if (pin := pins.get(normal(name))) is not None:
                there = {"kind": "environment", "name": environment.name, "lock_sha256": digest}
                places.setdefault((name, _public(pin.version)), []).append(there)
    for name, pinned in other_runtimes.BROUGHT:
        own = {
            "kind": "environment",
            "name": other_runtimes.name_of(name, pinned),
            "packages": other_runtimes.lines_of(other_runtimes.lock_of(name, pinned)),
            "megabytes": other_runtimes.MEGABYTES,
        }
        places.setdefault((name, pinned), []).append(own)
    for (name, version), runs in sorted(places.items()):
        yield FrameworkManifest.model_validate(
            {"kind": "framework", "name": name, "version": version, "runs": runs}
        )


def versions_here() -> list[FrameworkVersion]:
    """The same as a worker tells it of its host: each version with each place where it runs."""
    return [
        FrameworkVersion(name=manifest.name, version=manifest.version, place=place)
        for manifest in frameworks()
        for place in dict.fromkeys(manifest.places)
    ]


def _environments(backends: list[type[Backend]]) -> list[Environment]:
    """Those that a lock says the content of, each once."""
    by_name: dict[str, Environment] = {}
    for backend in backends:
        try:
            environment = backend().environment()
        except (InferBenchError, ImportError):
            continue  # what its environment is made from is not here
        if environment is not None and environment.lock is not None:
            by_name[environment.name] = environment
    return [by_name[name] for name in sorted(by_name)]


def _load(kind: str) -> type[Backend] | None:
    try:
        return BACKENDS.told(kind, lambda backend: derived(backend, Backend))
    except InferBenchError:
        return None


def _public(version: str) -> str:
    """Without what a build added: ``2.13.0+cpu`` is 2.13.0."""
    return any_version(version.partition("+")[0])
