"""Stage ``generate``: the model under test and the requests it will be asked."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from inferbench_tasks import extras
from inferbench_tasks.artifacts.cache import Entry
from inferbench_tasks.backends.base import BACKENDS
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.handles import Handle, ModelArtifact, Processing, RequestSet
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.modelrepo.build import (
    build_model,
    caches,
    cost_for_requests,
    find_cost_for_requests,
    find_model,
)
from inferbench_tasks.modelrepo.resolve import resolve
from inferbench_tasks.stages.base import Context, Stage, StageInput
from inferbench_tasks.stages.fixed_batch import check_batch
from inferbench_tasks.stages.prompted import prompted, require_fitting, vocabulary_of
from inferbench_tasks.submission.processors import ProcessorsSpec
from inferbench_tasks.submission.spans import SpansSpec

STAGE = Stage(in_child=True, retries=1)
#: Raised by one whenever the requests are chosen or written differently.
REQUESTS_RECIPE = 2


class Input(StageInput):
    """Nothing comes before it."""


class Output(Handle):
    """The source model and its requests."""

    model: ModelArtifact
    requests: RequestSet
    cached: bool
    #: What ``evaluate`` asks; None without that block.
    evaluation: RequestSet | None = None


def without_child(inp: Input, ctx: Context) -> Output | None:
    """The model and its requests where both are cached."""
    source = resolve(inp.job.model, ctx.base_dir)
    model = find_model(source, ctx.data_dir)
    if model is None:
        return None
    _require_batch(inp, model)
    if inp.job.streamed:
        if (
            vocabulary_of(model) is not None
        ):  # a chat template of the model's is rendered, which is for a child
            return None
        return Output(model=model, requests=prompted(inp.job, ctx.base_dir, model), cached=True)
    cache = caches(ctx.data_dir, source, "requests")
    entry = cache.find(_requests_settings(inp, model, ctx.base_dir, source.foreign))
    if entry is None:
        return None
    model = find_cost_for_requests(source, model, entry.facts["shapes"], ctx.data_dir)
    if model is None:
        return None
    evaluation = None
    if inp.job.evaluate is not None:
        asked = cache.find(evaluation_settings(inp, model, ctx.base_dir))
        if asked is None:
            return None
        evaluation = _requests(asked, model)
    return Output(model=model, requests=_requests(entry, model), cached=True, evaluation=evaluation)


def run(inp: Input, ctx: Context) -> Output:
    """Make or fetch the model; prepare seeded, distinct requests with the model's own answers.

    Raises InputError where the model, its batch or the requests are not possible, StageError where the model
    answers NaN, MissingExtraError where its framework can't be had.
    """
    from inferbench_tasks.formats.base import FORMATS, TOLERANCE_RATIO
    from inferbench_tasks.modelrepo import own_batch
    from inferbench_tasks.requests import prepare, rows
    from inferbench_tasks.requests.files import open_files
    from inferbench_tasks.stages import evaluated, processed

    data_dir, base_dir, watch = ctx.data_dir, ctx.base_dir, Watch(ctx.progress, ctx.cancelled)
    source = resolve(inp.job.model, base_dir)
    if source.framework in extras.names():
        extras.require(source.framework)  # before the cache's key is made of its version
    if inp.job.streamed:
        require_fitting(inp.job, base_dir)  # what the files alone tell, before a model is fetched
    cached = inp.job.streamed and find_model(source, data_dir) is not None
    model = build_model(source, data_dir, watch)
    _require_batch(inp, model)
    if inp.job.streamed:
        return Output(model=model, requests=prompted(inp.job, ctx.base_dir, model), cached=cached)
    spec = inp.job.requests
    processors = inp.job.processors

    def make(folder: Path) -> dict[str, Any]:
        dataset = source.dataset() if spec.kind == "dataset" else None
        if processors is not None and processors.before:
            facts = processed.make(folder, inp, source, model, dataset, base_dir, watch)
            return {**facts, "shapes": prepare.shapes(prepare.stored(folder))}
        if spec.kind == "files":
            assert spec.path is not None
            order = source.colour_order
            dataset = open_files(base_dir, spec.path, model, _encoder(source), source.pixels, order)
        arrays, labels = prepare.sample(spec, source, model, dataset, inp.job.traffic.seed)
        labels = prepare.usable_labels(labels, model, "requests")
        predict = FORMATS.load(model.format)().open(model)
        if source.foreign and model.batch_size is None:
            rows.require_rows(predict, arrays, inp.job.convert.tolerance_ratio or TOLERANCE_RATIO["fp32"])
        own = own_batch.original(model)
        reference = prepare.answers(own or predict, arrays, watch, model.batch_size)
        prepare.write(folder, arrays, reference, labels)
        processing = processed.after_only(folder, inp, source, model, arrays, reference, base_dir)
        return {
            "processing": processing,
            "samples": len(next(iter(arrays.values()))),
            "labelled": labels is not None,
            "dataset": dataset.name if dataset else "random",
            "shapes": prepare.shapes(arrays),
        }

    cache = caches(data_dir, source, "requests")
    entry = cache.get(_requests_settings(inp, model, base_dir, source.foreign), make)
    model = cost_for_requests(source, model, entry.facts["shapes"], data_dir, watch)
    evaluation = None
    if inp.job.evaluate is not None:
        samples = partial(evaluated.make, inp=inp, source=source, model=model, watch=watch, base_dir=base_dir)
        evaluation = _requests(cache.get(evaluation_settings(inp, model, base_dir), samples), model)
    return Output(model=model, requests=_requests(entry, model), cached=False, evaluation=evaluation)


def _require_batch(inp: Input, model: ModelArtifact) -> None:
    """InputError as soon as the model is known, before anything waits for a device."""
    if model.batch_size is not None:
        check_batch(inp.job, BACKENDS.load(inp.job.serve.backend), model)


def _encoder(source: ModelSource) -> Callable[[list[str]], Arrays] | None:
    own = type(source).encode is not ModelSource.encode
    return cast("Callable[[list[str]], Arrays]", source.encode) if own else None


def processed_settings(processors: ProcessorsSpec, base_dir: Path) -> dict[str, Any]:
    """What decides the processed samples: the processors, and the files that they read."""
    from inferbench_tasks.requests.files import files_digest

    steps = (*processors.before, *processors.after)
    paths = [step.settings["path"] for step in steps if isinstance(step.settings.get("path"), str)]
    facts = processors.model_dump(mode="json")
    return {**facts, "files": [files_digest(base_dir, path) for path in paths], "recipe": 2}


def _requests_settings(inp: Input, model: ModelArtifact, base_dir: Path, foreign: bool) -> dict[str, Any]:
    from inferbench_tasks.requests.files import files_digest

    spec = inp.job.requests
    processors = inp.job.processors
    return {
        **({"processors": processed_settings(processors, base_dir)} if processors else {}),
        "model": model.digest,
        "name": model.name,
        "requests": spec.model_dump(mode="json"),
        "files": files_digest(base_dir, spec.path) if spec.path else None,
        "seed": inp.job.traffic.seed,
        **({"tolerance": inp.job.convert.tolerance_ratio} if foreign else {}),
        "recipe": REQUESTS_RECIPE,
    }


def evaluation_settings(inp: Input, model: ModelArtifact, base_dir: Path) -> dict[str, Any]:
    """What decides which samples are evaluated, and what the source model answers to them."""
    from inferbench_tasks.datasets.base import identity
    from inferbench_tasks.manifests.built_in.datasets import named_dataset, require_resolved

    spec = inp.job.evaluate
    assert spec is not None
    seed = {} if spec.samples is None else {"seed": inp.job.traffic.seed}
    named = {} if spec.dataset is None else identity(spec.dataset, spec.path, base_dir, spec.split)
    if spec.dataset is not None:
        manifest = named_dataset(spec.dataset)
        require_resolved(inp.job.manifests, spec.dataset, manifest)
        if manifest is not None:
            named["manifest"] = manifest.digest  # another version has other samples
    # Measures that were named are required of these answers where they are made.
    measures = {"measures": spec.measures} if spec.measures else {}
    vary = {"vary": spec.vary.changes} if spec.vary else {}
    part = {"part": spec.part} if spec.part else {}
    spans = {"spans": _spans_settings(spec.spans, base_dir)} if spec.spans else {}
    processors = inp.job.processors
    if processors is not None:
        spans["processors"] = processed_settings(processors, base_dir)
    return {
        "model": model.digest, "name": model.name, "evaluate": spec.samples, **seed, **named, **measures, **vary,
        **part, **spans, "recipe": 5,
    }  # fmt: skip


def _spans_settings(spans: SpansSpec, base_dir: Path) -> dict[str, Any]:
    """The settings, with the content of the tokenizer in place of where it lies."""
    from inferbench_tasks.artifacts.cache import file_digest
    from inferbench_tasks.artifacts.safe_files import inside

    path = spans.tokenizer and inside(base_dir, spans.tokenizer, "evaluate.spans.tokenizer")
    return {**spans.model_dump(mode="json"), "tokenizer": file_digest(path) if path else None}


def _requests(entry: Entry, model: ModelArtifact) -> RequestSet:
    # Caches of before have labels of models whose answers are right by chance.
    labelled = entry.facts["labelled"] and model.accuracy_reason is None
    return RequestSet(
        path=str(entry.folder / "requests.npz"),
        reference_path=str(entry.folder / "reference.npz"),
        labels_path=str(entry.folder / "labels.npy") if labelled else None,
        samples=entry.facts["samples"],
        digest=entry.digest,
        dataset=entry.facts["dataset"],
        samples_digest=entry.facts.get("samples_digest"),
        manifest=entry.facts.get("manifest"),
        processing=_processing(entry),
    )


def _processing(entry: Entry) -> Processing | None:
    processing = entry.facts.get("processing")
    if processing is None:
        return None
    names = ("sent_path", "answered_path", "raw_path")
    paths = {name: str(entry.folder / processing[name]) for name in names if processing[name]}
    return Processing.model_validate({**processing, **paths})
