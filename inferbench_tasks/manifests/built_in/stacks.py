"""Manifests of stacks: each backend with each format that it serves, in fp32 and with its default settings."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

from inferbench_tasks.backends.base import BACKENDS, Backend
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.manifests.kinds.stack import StackManifest

log = logging.getLogger(__name__)


def stacks() -> Iterator[StackManifest]:
    """Named as the backend, and as backend and format where it serves several."""
    for kind in BACKENDS:
        try:
            yield from BACKENDS.told(kind, partial(_of_backend, kind))
        except InferBenchError as error:  # a package's hides no other
            log.warning("no stack of the backend %s: %s", kind, error)


def _of_backend(kind: str, backend: type[Backend]) -> list[StackManifest]:
    manifests = []
    for model_format in backend.formats:
        name = kind if len(backend.formats) == 1 else f"{kind}-{model_format}"
        launcher = {} if "process" in backend.launchers[:1] else {"launcher": backend.launchers[0]}
        manifest = StackManifest.model_validate(
            {
                "kind": "stack",
                "name": name,
                "version": "1.0.0",
                "framework": backend.package,
                "format": model_format,
                "backend": kind,
                "settings": launcher,
            }
        )
        manifests.append(manifest)
    return manifests
