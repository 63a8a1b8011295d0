"""Part of ``generate``: the samples that ``evaluate`` asks, with the source model's answers to them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from inferbench_tasks.backends.first_answer import check_requests
from inferbench_tasks.contracts.answers import meaning_of
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.arrays import Arrays
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.datasets.about import facts
from inferbench_tasks.datasets.base import DATASETS, Collection, identity, open_dataset
from inferbench_tasks.datasets.content import require_unchanged
from inferbench_tasks.datasets.fit import fitted
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.manifests.built_in.datasets import named_dataset, of_model
from inferbench_tasks.manifests.kinds.dataset import DatasetManifest
from inferbench_tasks.processors.pipeline import Pipeline
from inferbench_tasks.quality.average_precision import classes_named
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.judge import require
from inferbench_tasks.requests import prepare
from inferbench_tasks.stages import answer_texts, class_names, evaluated_raw, varied_samples
from inferbench_tasks.stages.base import StageInput
from inferbench_tasks.stages.processed import pipeline_of
from inferbench_tasks.submission.part import Part
from inferbench_tasks.submission.spans import SpansSpec

#: Which samples of the data set they are, and what is known of it, beside the requests' files.
IDS_FILE = "ids.npy"
DATASET_FILE = "dataset.json"
TARGETS_FILE = "targets.npz"
#: What the samples of some forms are judged by, and by nothing else.
_JUDGED_BY = {"scenes": "average_precision"}


def make(
    folder: Path, inp: StageInput, source: ModelSource, model: ModelArtifact, watch: Watch, base_dir: Path
) -> dict[str, Any]:
    """Write samples, answers, labels and ids; the facts of the cache's entry. InputError without a data set, or
    where it doesn't fit the model.
    """
    spec = inp.job.evaluate
    assert spec is not None
    if (
        spec.parts is not None
    ):  # a number is one job for each part; ``auto`` is told where a submission is read
        raise InputError(
            "auto was not told where the submission was read, without its files; give a number",
            field="evaluate.parts",
        )
    processors = inp.job.processors
    built = pipeline_of(inp, source, model, base_dir) if processors is not None else None
    pipeline = built[0] if built is not None else None
    before = pipeline if processors is not None and processors.before else None
    known: dict[str, Any] = {}
    collection: Collection | None = None
    manifest: DatasetManifest | None
    if spec.dataset is None:
        dataset = source.dataset()
        manifest = None if dataset is None else _manifest_of_own(dataset)
        if dataset is not None and before is not None:
            dataset = Raw(dataset, before)
        elif dataset is None and before is None:
            dataset = source.made_up()
    else:
        collection = open_dataset(spec.dataset, spec.path, base_dir, spec.split)
        require_unchanged(spec.dataset, DATASETS.load(spec.dataset)(), collection)
        manifest = named_dataset(spec.dataset)
        dataset = fitted(collection, source, model, spec.spans, base_dir, before)
        what = {
            **identity(spec.dataset, spec.path, base_dir, spec.split),
            "path": None,
        }  # the same data may lie elsewhere
        digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
        known = {**facts(collection), "digest": digest}
    if dataset is None:
        raise InputError(
            f"The model {model.name} comes with no data set to be evaluated on; name one (evaluate.dataset: "
            f"{', '.join(DATASETS)}), or leave evaluate out",
            field="evaluate",
        )
    part = Part.read(spec.part) if spec.part else None
    arrays, labels, ids = prepare.every(dataset, spec.samples, inp.job.traffic.seed, part)
    if before is not None:
        check_requests(arrays, model)
    labels = prepare.usable_labels(labels, model, "evaluate")
    reference = prepare.answers(FORMATS.load(model.format)().open(model), arrays, watch, model.batch_size)
    prepare.write(folder, arrays, reference, labels)
    targets = {kind: array[ids] for kind, array in dataset.targets().items()}
    processed = (
        pipeline.each_after(reference) if processors is not None and pipeline and processors.after else None
    )
    processes = bool(processors is not None and processors.after)
    read = answer_texts.texts_of(dataset, ids, spec.spans or SpansSpec(), processed=processes)
    if read is not None:
        known[read.kind] = read.facts
    classes = class_names.reader_for(dataset)
    if classes is not None:
        known[class_names.KIND] = class_names.facts(classes)
    if collection is not None and collection.classes and "boxes" in targets and not model.accuracy_reason:
        _require_classes(reference if processed is None else processed, collection, model.name)
    # Of data that has nothing else to judge by, an evaluation without that figure would be none.
    only = _JUDGED_BY.get(collection.form) if collection is not None else None
    if read is not None and "texts" in targets:
        only = read.judged_by
    needed = spec.measures or ((only,) if only and not model.accuracy_reason else ())
    bounded = [name for name in (inp.job.slo.bounds() if inp.job.slo else ()) if FIGURES[name].evaluated]
    if needed or bounded:
        labelled = labels is not None
        meaning = meaning_of(model.task, reference, labelled=labelled)
        reason = model.accuracy_reason or ""
        unlabelled = reason or "the data set has no labels"
        texts = read.reader(reference) if read is not None else None
        named = classes(reference) if classes is not None else reference
        answered = Answered(named, named, labels, meaning, unlabelled, targets, reason, texts, processed)
        require(answered, needed, dataset.name)
        require(answered, bounded, dataset.name, "slo")
    if spec.vary is not None:
        varied_samples.write(folder, spec.vary, dataset, ids, arrays, reference, labels, source, model, watch)
    sent = None
    if before is not None and built is not None and processors is not None and processors.side == "server":
        raw = dataset.rows(ids) if isinstance(dataset, Raw) else _rows(collection, ids)
        sent = evaluated_raw.write(folder, raw, built[1]["before"], model)
    if targets:
        write_archive(folder / TARGETS_FILE, targets)
    if read is not None:
        read.write(folder)
    if classes is not None:
        class_names.write(folder, classes)
    np.save(folder / IDS_FILE, ids, allow_pickle=False)
    (folder / DATASET_FILE).write_text(json.dumps(known))
    return {
        "samples": len(ids),
        "labelled": labels is not None,
        "dataset": dataset.name,
        "processing": sent,
        "samples_digest": samples_digest(known.get("digest") or own_digest(dataset), ids, len(dataset)),
        "manifest": manifest and manifest.record(),
    }


def _manifest_of_own(dataset: Dataset) -> DatasetManifest | None:
    """Of a model's own data; None of a package's whose name or number of classes no manifest can have."""
    try:
        return of_model(dataset)
    except ValidationError:
        return None


def _rows(collection: Collection | None, ids: NDArray[np.int64]) -> Iterable[Any]:
    """Samples of a data set that was named, as it has them."""
    assert collection is not None
    rows: Iterable[Any] = collection.rows(ids)
    return rows


class Raw(Dataset):
    """A model's own raw samples through the submission's processors. InputError where it has none."""

    name = ""

    def __init__(self, dataset: Dataset, before: Pipeline) -> None:
        self.name = dataset.name  # type: ignore[misc]  # of this one, not of its class
        self.version, self.files = dataset.version, dataset.files  # type: ignore[misc]
        self._dataset, self._before = dataset, before

    def __len__(self) -> int:
        return len(self._dataset)

    def inputs(self, indices: NDArray[np.int64]) -> Arrays:
        return self._before.each_before(self.rows(indices))

    def rows(self, indices: NDArray[np.int64]) -> list[bytes]:
        """The samples as they are. InputError where there are none."""
        raw = self._dataset.raw(indices)
        if raw is None:
            raise InputError(
                f"{self.name} has tensors and no raw samples; leave processors.before out, or name a data set of files",
                field="processors.before",
            )
        return raw

    def labels(self) -> NDArray[np.int64] | None:
        return self._dataset.labels()

    def targets(self) -> Mapping[str, NDArray[Any]]:
        return self._dataset.targets()


def _require_classes(reference: Arrays, collection: Collection, model: str) -> None:
    """InputError where the model names a box's class that the data set has none for: then its classes are others."""
    named = classes_named(reference)
    if len(named) and named.max() >= len(collection.classes):
        raise InputError(
            f"{model} names class {named.max():.0f} of a box, {collection.name} has {len(collection.classes)}, "
            f"numbered from 0 ({collection.classes[0]}): they are not the same. List all classes of the model in their "
            f"order in a classes.txt beside the data, a line each (of a model that answers COCO's own ids, 91 lines)",
            field="evaluate.dataset",
        )


def samples_digest(content: str, ids: NDArray[np.int64], count: int) -> str:
    """Of a data set's content and the samples of its ``count`` that are asked: ``content`` itself where all are."""
    if len(ids) == count:
        return content
    return hashlib.sha256(content.encode() + ids.astype("<i8").tobytes()).hexdigest()


def own_digest(dataset: Dataset) -> str:
    """Of a model's own data: name, version, files, and what is right of every sample.

    Not of the inputs: each model has the same samples in a form of its own (a picture in its size).
    """
    named = {"dataset": dataset.name, "version": dataset.version, "files": dict(dataset.files)}
    digest = hashlib.sha256(json.dumps([named, len(dataset)], sort_keys=True).encode())
    labels = dataset.labels()
    if labels is not None:
        digest.update(labels.astype("<i8").tobytes())
    for kind, array in sorted(dataset.targets().items()):
        digest.update(kind.encode())
        for row in array:
            digest.update(prepare.bytes_of(row) + b"\0")
    return digest.hexdigest()
