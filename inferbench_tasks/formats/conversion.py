"""Convert a model along its way; every hop is a cached artefact of its source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks.artifacts.cache import ArtifactCache
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import Watch
from inferbench_tasks.errors import ConversionError, InferBenchError, InputError
from inferbench_tasks.extras import require
from inferbench_tasks.formats.base import FORMATS, Format, Settings
from inferbench_tasks.formats.route import Hop, route

#: Raised by one whenever a converter writes something else than before.
RECIPE = 5


@dataclass(frozen=True)
class Converted:
    """A model in the format asked for; ``cached``: nothing had to be converted."""

    model: ModelArtifact
    cached: bool


def convert_model(
    source: ModelArtifact,
    target: str,
    precision: str,
    cache: ArtifactCache,
    calibration: Arrays | None = None,
    calibration_digest: str = "",
    watch: Watch | None = None,
) -> Converted:
    """The source in another format. Raises InputError without a way, ConversionError where one fails."""
    model, cached = source, True
    for hop in route(source.format, target, precision, source.framework):
        artefact = find_hop(model, hop, cache, calibration_digest)
        if artefact is None:
            if watch:
                watch.step(0, None, f"{hop.source} -> {hop.target} {hop.precision}")
            artefact = _convert(model, hop, cache, calibration or {}, calibration_digest)
            cached = False
        model = artefact
    return Converted(model, cached)


def find_converted(
    source: ModelArtifact, target: str, precision: str, cache: ArtifactCache, calibration_digest: str = ""
) -> ModelArtifact | None:
    """The cached conversion, or None where one of its hops is missing. Imports no framework."""
    model: ModelArtifact | None = source
    for hop in route(source.format, target, precision, source.framework):
        if model is None:
            return None
        model = find_hop(model, hop, cache, calibration_digest)
    return model


def find_hop(
    source: ModelArtifact, hop: Hop, cache: ArtifactCache, calibration_digest: str
) -> ModelArtifact | None:
    """The artefact of one hop from the cache; None where it was never converted."""
    target = FORMATS.load(hop.target)()
    entry = cache.find(_settings(source, hop, target, calibration_digest))
    return _artifact(source, hop, target, entry.folder, entry.facts["outputs"]) if entry else None


def _settings(source: ModelArtifact, hop: Hop, target: Format, calibration_digest: str) -> dict[str, object]:
    calibrated = hop.precision in target.calibrated
    return {
        "source": source.digest,
        "signature": [s.model_dump(mode="json") for s in (*source.inputs, *source.outputs)],
        "from": hop.source,
        "to": hop.target,
        "precision": hop.precision,
        "calibration": calibration_digest if calibrated else None,
        "versions": {**FORMATS.load(hop.source)().versions(), **target.versions()},
        "recipe": RECIPE,
    }


def _convert(
    source: ModelArtifact, hop: Hop, cache: ArtifactCache, calibration: Arrays, calibration_digest: str
) -> ModelArtifact:
    target = FORMATS.load(hop.target)()
    what = f"{source.name}: {hop.source} -> {hop.target} ({hop.precision})"
    if reason := target.unavailable():
        raise InputError(f"{hop.target} can't be made here: {reason}", field="convert.format")
    if target.extra:
        require(target.extra)  # before the cache's key is made of its version
    if hop.precision in target.calibrated and not calibration:
        raise InputError(
            f"{hop.precision} needs real samples to measure its scales on", field="convert.precision"
        )

    def make(folder: Path) -> dict[str, object]:
        try:
            target.convert(source, folder, Settings(hop.precision, calibration))
        except (InferBenchError, OSError):
            raise
        except Exception as error:  # converters raise anything; the user needs the pair and the cause
            text = " ".join(str(error).split())
            raise ConversionError(f"{what} failed: {type(error).__name__}: {text[:1500]}") from error
        if not (folder / target.file).exists():
            raise ConversionError(f"{what} wrote no {target.file}")
        return {"outputs": [spec.model_dump(mode="json") for spec in source.outputs]}

    entry = cache.get(_settings(source, hop, target, calibration_digest), make)
    return _artifact(source, hop, target, entry.folder, entry.facts["outputs"])


def _artifact(
    source: ModelArtifact, hop: Hop, target: Format, folder: Path, outputs: list[dict[str, object]]
) -> ModelArtifact:
    path = folder / target.file
    kept = hop.precision == "fp32" and not target.unpacks
    precision = source.precision if kept else hop.precision
    return source.model_copy(
        update={
            "format": hop.target,
            "precision": precision,
            "path": str(path),
            "digest": target.digest(path),
            "outputs": tuple(TensorSpec.model_validate(spec) for spec in outputs),
        }
    )
