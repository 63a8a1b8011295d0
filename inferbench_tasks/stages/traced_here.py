"""Whether the levels that a trace is asked for can be told on this host: asked before the server is started."""

from __future__ import annotations

from inferbench_tasks.backends.base import Backend
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.servers.sources.base import SOURCES, LayerSource, untold
from inferbench_tasks.submission.schema import JobSpec

_DEEP = ("layer", "library")


def check_level(job: JobSpec, backend: Backend, model: ModelArtifact) -> None:
    """InputError where the level that ``trace.deepest`` names has a source that can't run here, with what helps.

    Without ``deepest`` a trace goes as deep as it can, and says what it lacks.
    """
    level = job.trace.deepest if job.trace is not None else None
    engine_of = getattr(backend, "engine_of", None)  # our servers alone have engines
    if level is None or level not in _DEEP or engine_of is None:
        return
    reasons = [untold(source, level, job.serve.device.kind) for source in _sources(engine_of(model))]
    if reasons and all(reasons):
        raise InputError(
            f"the level {level} can't be told of here: {'; '.join(filter(None, reasons))}. Without it, leave deepest "
            "out or name a level above",
            field="trace.deepest",
        )


def _sources(engine: str) -> list[type[LayerSource]]:
    """Those of an engine; one of a package that can't be had is none, which its own use says."""
    found = []
    for kind in SOURCES:
        try:
            source = SOURCES.load(kind)
        except InferBenchError:
            continue
        if engine in source.engines:
            found.append(source)
    return found
