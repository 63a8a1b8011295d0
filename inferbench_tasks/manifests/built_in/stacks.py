"""Manifests of stacks: each backend with each format that it serves, in fp32 and with its default settings."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.manifests.kinds.stack import StackManifest


def stacks() -> Iterator[StackManifest]:
    """Named as the backend, and as backend and format where it serves several."""
    for kind in BACKENDS:
        try:
            backend = BACKENDS.load(kind)
        except InferBenchError:
            continue
        for model_format in backend.formats:
            name = kind if len(backend.formats) == 1 else f"{kind}-{model_format}"
            launcher = {} if "process" in backend.launchers[:1] else {"launcher": backend.launchers[0]}
            yield StackManifest.model_validate(
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
