"""Stage ``convert``: the model in the format that the backend serves, checked against its source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import Handle, ModelArtifact, RequestSet
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.errors import InputError
from inferbench_tasks.formats.base import FORMATS, TOLERANCE_RATIO
from inferbench_tasks.formats.check import Difference, compare, require_within
from inferbench_tasks.formats.computed_precision import computes_as
from inferbench_tasks.formats.conversion import convert_model, find_converted
from inferbench_tasks.formats.route import route
from inferbench_tasks.formats.stored_precision import FULL, QUANTISED
from inferbench_tasks.modelrepo.build import caches, evaluate, is_classifier
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.requests.ragged import is_ragged, rows_of
from inferbench_tasks.stages import generate
from inferbench_tasks.stages.base import Context, Stage, StageInput
from inferbench_tasks.submission.schema import JobSpec

STAGE = Stage(needs=("generate",), in_child=True, retries=1)
#: Real samples whose answers are compared.
CHECKED_SAMPLES = 32
#: Batches at which they are compared, besides a sample by itself and all of them.
CHECKED_AT = (2, 7)
#: Samples that a calibrated precision measures its scales on.
CALIBRATION_SAMPLES = 64
#: Raised by one whenever the check changes.
CHECK_RECIPE = 3


class Input(StageInput):
    """The model and the requests that ``generate`` handed over."""

    generate: generate.Output


class Output(Handle):
    """The converted model. ``difference_ratio`` = max|converted - source| / max|source|, real inputs.

    ``accuracy_ratio`` is the converted model's on all held-out samples, to be set against the source's
    (``model.accuracy_ratio``); None without labels.
    """

    model: ModelArtifact
    difference_ratio: float
    tolerance_ratio: float
    accuracy_ratio: float | None
    cached: bool


def without_child(inp: Input, ctx: Context) -> Output | None:
    """The cached conversion; one that needs a GPU is made here, since children see none. Raises as ``run``."""
    spec, source = inp.job.convert, inp.generate.model
    _require_whole(source, spec.precision)
    route(source.format, spec.format, spec.precision, source.framework)
    origin = resolve(inp.job.model, ctx.base_dir)
    if not FORMATS.load(spec.format).tensors:
        texts = find_converted(
            source, spec.format, spec.precision, caches(ctx.data_dir, origin, "conversions")
        )
        return None if texts is None else _of_texts(inp.job, texts, cached=True)
    if "cpu" not in FORMATS.load(spec.format).devices:
        return run(inp, ctx)
    calibration = _calibration_digest(origin, inp.generate.requests)
    model = find_converted(
        source, spec.format, spec.precision, caches(ctx.data_dir, origin, "conversions"), calibration
    )
    if model is None:
        return None
    entry = caches(ctx.data_dir, origin, "checks").find(_check_settings(model, inp))
    return None if entry is None else _output(inp, model, entry.facts, cached=True)


def run(inp: Input, ctx: Context) -> Output:
    """Convert, or take the cached conversion; raise ConversionError beyond the tolerance.

    Raises InputError, which names what is possible, where there is no way to that format or precision.
    """
    from inferbench_tasks.backends.first_answer import first_rows, load_reference

    data_dir, watch = ctx.data_dir, Watch(ctx.progress, ctx.cancelled)
    spec, source = inp.job.convert, inp.generate.model
    _require_whole(source, spec.precision)
    route(source.format, spec.format, spec.precision, source.framework)
    origin = resolve(inp.job.model, ctx.base_dir)
    if not FORMATS.load(spec.format).tensors:
        cache = caches(data_dir, origin, "conversions")
        texts = convert_model(source, spec.format, spec.precision, cache, watch=watch)
        return _of_texts(inp.job, texts.model, cached=texts.cached)
    samples, reference = load_reference(inp.generate.requests)
    converted = convert_model(
        source,
        spec.format,
        spec.precision,
        caches(data_dir, origin, "conversions"),
        _calibration(origin, samples),
        _calibration_digest(origin, inp.generate.requests),
        watch,
    )
    model = converted.model

    def check(folder: Path) -> dict[str, Any]:
        watch.step(0, None, f"comparing {model.format} with its source")
        predict = FORMATS.load(model.format)().open(model)
        rows = min(CHECKED_SAMPLES, inp.generate.requests.samples)
        worst = Difference()
        device = "cpu" if "cpu" in FORMATS.load(model.format).devices else "gpu"
        exact = computes_as(source, model, spec.precision, device)
        fixed = model.batch_size  # else a batch axis that is not really free shows at one of these
        batches = [
            (first_rows(samples, count), first_rows(reference, count))
            for count in ([fixed] if fixed else sorted({1, *CHECKED_AT, rows}))
        ]
        if any(is_ragged(array) for array in samples.values()):  # the batches are of the first one then
            batches += [(_sample(samples, row), _sample(reference, row)) for row in range(1, rows)]
        for asked, expected in batches:
            comparison = compare(predict(asked), expected, exact)
            if comparison.undecidable or comparison.ratio >= worst.ratio:
                worst = comparison
            if worst.undecidable:
                break
        accuracy = None
        dataset = origin.dataset()
        if not worst.undecidable and source.accuracy_ratio is not None and dataset is not None:
            accuracy = evaluate(predict, model, dataset, watch) if is_classifier(model) else None
        return {"difference": worst.model_dump(mode="json"), "accuracy_ratio": accuracy}

    entry = caches(data_dir, origin, "checks").get(_check_settings(model, inp), check)
    return _output(inp, model, entry.facts, cached=converted.cached and entry.cached)


def _require_whole(source: ModelArtifact, precision: str) -> None:
    """InputError where weights that are quantised already are to be reduced: they would only be called otherwise."""
    if source.precision in QUANTISED and precision != FULL:
        raise InputError(
            f"{source.name} comes in {source.precision}, and nothing is made in {precision} of that; leave "
            f"convert.precision out: it is served, and called, as it is",
            field="convert.precision",
        )


def _sample(arrays: Arrays, row: int) -> Arrays:
    return {name: rows_of(array, [row]) for name, array in arrays.items()}


def _of_texts(job: JobSpec, model: ModelArtifact, *, cached: bool) -> Output:
    """Of a language model, whose first words ``serve`` compares: no tensors are.

    With weights that are not the model's it is another model wherever models are told apart by their names.
    """
    if job.serve.dummy_weights:
        reason = "its weights are random (serve.dummy_weights)"
        model = model.model_copy(
            update={"name": f"{model.name}-dummy-weights", "accuracy_reason": reason, "accuracy_ratio": None}
        )
    return Output(model=model, difference_ratio=0.0, tolerance_ratio=0.0, accuracy_ratio=None, cached=cached)


def _output(inp: Input, model: ModelArtifact, facts: dict[str, Any], *, cached: bool) -> Output:
    spec = inp.job.convert
    tolerance = spec.tolerance_ratio or TOLERANCE_RATIO[spec.precision]
    difference = Difference.model_validate(facts["difference"])
    require_within(difference, tolerance, f"{model.name} converted to {model.format} ({model.precision})")
    return Output(
        model=model,
        difference_ratio=difference.ratio,
        tolerance_ratio=tolerance,
        accuracy_ratio=facts["accuracy_ratio"],
        cached=cached,
    )


def _check_settings(model: ModelArtifact, inp: Input) -> dict[str, Any]:
    return {
        "model": model.digest,
        "format": model.format,
        "precision": model.precision,
        "source": inp.generate.model.digest,
        "requests": inp.generate.requests.digest,
        "versions": FORMATS.load(model.format)().versions(),
        "recipe": CHECK_RECIPE,
    }


def _calibration(origin: ModelSource, samples: Arrays) -> Arrays:
    """Real samples that are not held out; where a model has none, those of the requests."""
    dataset = origin.dataset()
    own = dataset.calibration(CALIBRATION_SAMPLES) if dataset is not None else None
    return own or {name: array[:CALIBRATION_SAMPLES] for name, array in samples.items()}


def _calibration_digest(origin: ModelSource, requests: RequestSet) -> str:
    dataset = origin.dataset()
    own = dataset is not None and type(dataset).calibration is not Dataset.calibration
    return f"{dataset.name}, {CALIBRATION_SAMPLES}" if own and dataset else requests.digest
