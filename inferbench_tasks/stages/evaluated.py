"""Part of ``generate``: the samples that ``evaluate`` asks, with the source model's answers to them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inferbench_tasks.contracts.answers import meaning_of
from inferbench_tasks.contracts.archive import write_archive
from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.contracts.handles import ModelArtifact
from inferbench_tasks.contracts.models import ModelSource, Watch
from inferbench_tasks.datasets.about import facts
from inferbench_tasks.datasets.base import DATASETS, identity, open_dataset
from inferbench_tasks.datasets.fit import fitted
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.formats.base import FORMATS
from inferbench_tasks.quality.base import Answered
from inferbench_tasks.quality.judge import require
from inferbench_tasks.requests import prepare
from inferbench_tasks.stages import varied_samples
from inferbench_tasks.stages.base import StageInput
from inferbench_tasks.submission.part import Part

#: Which samples of the data set they are, and what is known of it, beside the requests' files.
IDS_FILE = "ids.npy"
DATASET_FILE = "dataset.json"
TARGETS_FILE = "targets.npz"


def make(
    folder: Path, inp: StageInput, source: ModelSource, model: ModelArtifact, watch: Watch, base_dir: Path
) -> dict[str, Any]:
    """Write samples, answers, labels and ids; the facts of the cache's entry. InputError without a data set, or
    where it doesn't fit the model.
    """
    spec = inp.job.evaluate
    assert spec is not None
    known: dict[str, Any] = {}
    if spec.dataset is None:
        dataset = source.dataset()
    else:
        collection = open_dataset(spec.dataset, spec.path, base_dir)
        dataset = fitted(collection, source, model)
        what = {
            **identity(spec.dataset, spec.path, base_dir),
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
    labels = prepare.usable_labels(labels, model, "evaluate")
    reference = prepare.answers(FORMATS.load(model.format)().open(model), arrays, watch, model.batch_size)
    prepare.write(folder, arrays, reference, labels)
    targets = {kind: array[ids] for kind, array in dataset.targets().items()}
    bounded = [name for name in (inp.job.slo.bounds() if inp.job.slo else ()) if FIGURES[name].evaluated]
    if spec.measures or bounded:
        labelled = labels is not None
        meaning = meaning_of(model.task, reference, labelled=labelled)
        reason = model.accuracy_reason or ""
        unlabelled = reason or "the data set has no labels"
        answered = Answered(reference, reference, labels, meaning, unlabelled, targets, reason)
        require(answered, spec.measures or (), dataset.name)
        require(answered, bounded, dataset.name, "slo")
    if spec.vary is not None:
        varied_samples.write(folder, spec.vary, dataset, ids, arrays, reference, labels, source, model, watch)
    if targets:
        write_archive(folder / TARGETS_FILE, targets)
    np.save(folder / IDS_FILE, ids, allow_pickle=False)
    (folder / DATASET_FILE).write_text(json.dumps(known))
    return {
        "samples": len(ids),
        "labelled": labels is not None,
        "dataset": dataset.name,
        "samples_digest": samples_digest(known.get("digest") or own_digest(dataset), ids, len(dataset)),
    }


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
