"""Make a source model and measure what is known of it: accuracy, parameters, FLOPs, bytes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from inferbench_tasks.artifacts.cache import ArtifactCache, Entry, key_of
from inferbench_tasks.contracts.answers import meaning_of_specs
from inferbench_tasks.contracts.arrays import accuracy_ratio
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import ModelArtifact, TensorSpec
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.errors import ConversionError, InputError, MissingExtraError, StorageError
from inferbench_tasks.formats.base import FORMATS, Predict
from inferbench_tasks.formats.conversion import convert_model

log = logging.getLogger(__name__)

#: Raised by one whenever the way that cost is counted changes.
COSTS_RECIPE = 3

_OF_DIFFERENT_SIZES = {
    "flops": None,
    "bytes": None,
    "costs_reason": "the samples' sizes are drawn, and each costs something else",
}


def cache_root(data_dir: Path, source: ModelSource) -> Path:
    """Where all is kept that is made of a source.

    What comes from outside has a folder of its own, by its content: code in it can't touch what is made of others.
    """
    root = data_dir / "cache"
    return root / "foreign" / key_of(source.settings()) if source.foreign else root


def caches(data_dir: Path, source: ModelSource, name: str) -> ArtifactCache:
    """The cache of that name for a source: "models", "costs", "requests", "conversions", "checks"."""
    return ArtifactCache(cache_root(data_dir, source) / name)


def find_model(source: ModelSource, data_dir: Path) -> ModelArtifact | None:
    """The source's cached artefact with its costs, or None where something is missing."""
    entry = caches(data_dir, source, "models").find(source.settings())
    if entry is None:
        return None
    model = _artifact(source, entry)
    if not FORMATS.load(model.format).tensors:
        return model
    costs = caches(data_dir, source, "costs").find(_costs_settings(source, model))
    return None if costs is None else model.model_copy(update=costs.facts)


def made_before(source: ModelSource, data_dir: Path) -> ModelArtifact | None:
    """What the cache tells of a source, without its digest and costs, for who only asks what it takes; None where it
    was not made here.
    """
    entry = caches(data_dir, source, "models").find(source.settings())
    return None if entry is None else _from_facts(source, entry.folder, entry.facts, digest="")


def build_model(source: ModelSource, data_dir: Path, watch: Watch) -> ModelArtifact:
    """The source's artefact, made where it is not cached."""

    def make(folder: Path) -> dict[str, Any]:
        source.folder = folder
        source_model = source.make(folder, watch)
        facts: dict[str, Any] = {
            "format": source_model.format,
            "file": source_model.file,
            "inputs": [s.model_dump(mode="json") for s in source_model.inputs],
            "outputs": [s.model_dump(mode="json") for s in source_model.outputs],
            "parameters": source_model.parameters,
            "precision": source_model.precision,
            "batch_size": source_model.batch_size,
            "adapted": list(source_model.adapted),
            "accuracy_ratio": None,
        }
        model = _from_facts(source, folder, facts, digest="")
        dataset = source.dataset()
        measurable = is_classifier(model) and source.accuracy_reason is None
        if dataset is not None and measurable and dataset.labels() is not None:
            predict = FORMATS.load(source_model.format)().open(model)
            facts["accuracy_ratio"] = evaluate(predict, model, dataset, watch)
        return facts

    model = _artifact(source, caches(data_dir, source, "models").get(source.settings(), make))

    if not FORMATS.load(model.format).tensors:
        return model

    return _with_costs(source, model, data_dir, watch, model.inputs)


def cost_for_requests(
    source: ModelSource, model: ModelArtifact, shapes: dict[str, list[int]], data_dir: Path, watch: Watch
) -> ModelArtifact:
    """The model with the costs of samples of these shapes, input by input: a free size decides how much is computed.

    Null where samples differ: the costs are of no one of them.
    """
    if any(-1 in shape for shape in shapes.values()):
        return model.model_copy(update=_OF_DIFFERENT_SIZES)
    sized = _sized(source, model, shapes)
    return model if sized is None else _with_costs(source, model, data_dir, watch, sized)


def find_cost_for_requests(
    source: ModelSource, model: ModelArtifact, shapes: dict[str, list[int]], data_dir: Path
) -> ModelArtifact | None:
    """As ``cost_for_requests``, from the cache; None where it has to be counted."""
    if any(-1 in shape for shape in shapes.values()):
        return model.model_copy(update=_OF_DIFFERENT_SIZES)
    sized = _sized(source, model, shapes)
    if sized is None:
        return model
    costs = caches(data_dir, source, "costs").find(_costs_settings(source, model, sized))
    return None if costs is None else model.model_copy(update=costs.facts)


def _sized(
    source: ModelSource, model: ModelArtifact, shapes: dict[str, list[int]]
) -> tuple[TensorSpec, ...] | None:
    """The inputs with the requests' sizes; None where they are those that were counted already."""
    sized = tuple(
        spec.model_copy(update={"shape": tuple(shapes[spec.name])}) if -1 in spec.shape else spec
        for spec in model.inputs
    )
    counted = (tuple(source.dynamic_size if n == -1 else n for n in spec.shape) for spec in model.inputs)
    return None if [spec.shape for spec in sized] == list(counted) else sized


def _with_costs(
    source: ModelSource, model: ModelArtifact, data_dir: Path, watch: Watch, inputs: tuple[TensorSpec, ...]
) -> ModelArtifact:
    def count(folder: Path) -> dict[str, Any]:
        return _costs(model, caches(data_dir, source, "conversions"), inputs, source.dynamic_size, watch)

    try:
        costs = caches(data_dir, source, "costs").get(_costs_settings(source, model, inputs), count)
    except MissingExtraError as error:  # it may be there the next time
        log.warning("FLOPs are not known model=%s: %s", model.name, error)
        return model.model_copy(update={"flops": None, "bytes": None, "costs_reason": str(error)})
    return model.model_copy(update=costs.facts)


def is_classifier(model: ModelArtifact) -> bool:
    """Whether its answers name classes."""
    return meaning_of_specs(model.task, model.outputs) == "classes"


def evaluate(predict: Predict, model: ModelArtifact, dataset: Dataset, watch: Watch) -> float:
    """The share of ALL held-out samples that a classifier's first output gets right."""
    right = total = 0.0
    for inputs, labels in dataset.batches():
        watch.step(total, len(dataset), f"accuracy on {dataset.name}")
        assert labels is not None
        scores = predict(inputs)
        right += accuracy_ratio(scores.get(model.outputs[0].name, next(iter(scores.values()))), labels) * len(
            labels
        )
        total += len(labels)
    return right / total


def _costs_settings(
    source: ModelSource, model: ModelArtifact, inputs: tuple[TensorSpec, ...] | None = None
) -> dict[str, Any]:
    shapes = [list(spec.shape) for spec in inputs or model.inputs]
    return {
        "shapes": shapes,
        "model": model.digest,
        "format": model.format,
        "dynamic_size": source.dynamic_size,
        "recipe": COSTS_RECIPE,
    }


def _costs(
    model: ModelArtifact,
    conversions: ArtifactCache,
    inputs: tuple[TensorSpec, ...],
    dynamic_size: int,
    watch: Watch,
) -> dict[str, Any]:
    """FLOPs and bytes, counted over the model's ONNX graph; None where it has none."""
    from inferbench_tasks.formats.costs import graph_costs
    from inferbench_tasks.formats.parameters import parameters_of

    parameters = model.parameters
    try:
        onnx_model = convert_model(model, "onnx", "fp32", conversions, watch=watch).model
        parameters = parameters_of(Path(onnx_model.path)) if parameters is None else parameters
        watch.step(0, None, "counting FLOPs")
        costs = graph_costs(Path(onnx_model.path), inputs, dynamic_size, model.batch_size or 1)
    except (InputError, ConversionError) as error:
        if isinstance(error.__cause__, MemoryError):
            raise  # not for good: nothing is kept of it
        log.warning("FLOPs are not known model=%s: %s", model.name, error)
        return {
            "flops": None,
            "bytes": None,
            "costs_reason": " ".join(str(error).split())[:1000],
            "parameters": parameters,
        }
    if costs.reason:
        log.warning("costs are not known model=%s: %s", model.name, costs.reason)
    return {
        "flops": costs.flops,
        "bytes": costs.bytes,
        "costs_reason": costs.reason,
        "parameters": parameters,
    }


def _artifact(source: ModelSource, entry: Entry) -> ModelArtifact:
    source.folder = entry.folder
    digest = FORMATS.load(entry.facts["format"])().digest(file_of(entry.folder, entry.facts))
    return _from_facts(source, entry.folder, entry.facts, digest)


def file_of(folder: Path, facts: dict[str, Any]) -> Path:
    """The model of a cache entry. StorageError where it names what does not lie in the entry: a model's own code may
    have written that.
    """
    name = facts.get("file")
    if (
        not isinstance(name, str)
        or "\0" in name
        or name in ("", ".")
        or Path(name).is_absolute()
        or ".." in Path(name).parts
        or not (folder / name).resolve().is_relative_to(folder.resolve())
    ):
        raise StorageError(f"{folder} names {str(name)[:200]!r}, which is no file in it. Remove that folder")
    return folder / name


def _from_facts(source: ModelSource, folder: Path, facts: dict[str, Any], digest: str) -> ModelArtifact:
    dataset = source.dataset()
    return ModelArtifact(
        name=source.name,
        version=source.version,
        framework=source.framework,
        format=facts["format"],
        precision=facts.get("precision", "fp32"),
        path=str(file_of(folder, facts)),
        digest=digest,
        task=source.task,
        dataset=dataset.name if dataset else None,
        licence=source.licence,
        parameters=facts["parameters"],
        # Caches of before may have one.
        accuracy_ratio=None if source.accuracy_reason else facts["accuracy_ratio"],
        accuracy_reason=source.accuracy_reason,
        batch_size=facts.get("batch_size"),
        adapted=tuple(facts.get("adapted", ())),
        inputs=tuple(TensorSpec.model_validate(s) for s in facts["inputs"]),
        outputs=tuple(TensorSpec.model_validate(s) for s in facts["outputs"]),
    )
