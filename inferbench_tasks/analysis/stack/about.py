"""What tells a traced run from another one, as plain values."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.tracing.batches import traced_batch_size


def about_of(result: ResultDocument) -> dict[str, Any]:
    """Model, stack, settings of the server, device; and what the run is worth."""
    settings = result.backend.settings
    return {
        "model": result.model.name,
        "digest": result.model.digest,
        "source": source_of(result),
        "backend": result.backend.kind,
        "version": result.backend.version,
        "format": result.format,
        "precision": result.model.precision,
        "threads": settings.get("threads"),
        "instances": settings.get("instances"),
        "batching": settings.get("batching"),
        "engine_settings": settings.get("engine_settings"),
        "batch_size": traced_batch_size(result),
        "device": result.device.name or result.device.kind,
        "cores": result.device.cores,
        "verdict": str(result.verdict),
        "at": result.created_at,
    }


def source_of(result: ResultDocument) -> str | None:
    """The content of the model before it was converted, by its digest; None in results of before it was kept."""
    source = (result.model.model_extra or {}).get("source_digest")
    return None if source is None else str(source)
