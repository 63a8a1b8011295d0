"""Manifests of data sets: those that built-in models come with, and those that ``evaluate.dataset`` names."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.datasets.base import DATASETS, DataSource
from inferbench_tasks.datasets.described import LABELLED, UNLABELLED
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.manifests.kinds.dataset import DatasetManifest
from inferbench_tasks.modelrepo.zoo import ZOO


def datasets() -> Iterator[DatasetManifest]:
    """One of each name that models have, and one of each that can be named and has one."""
    names: set[str] = set()
    for name in ZOO:
        try:
            dataset = ZOO.load(name)(name, None).dataset()
        except InferBenchError:
            continue
        if dataset is not None and dataset.name not in names:
            names.add(dataset.name)
            yield of_model(dataset)
    for name in DATASETS:
        try:
            source = DATASETS.load(name)
        except InferBenchError:
            continue  # a third party's that can't be imported; whoever asks for it is told why
        if (manifest := of_source(name, source)) is not None:
            yield manifest


def of_model(dataset: Dataset) -> DatasetManifest:
    """The manifest of the data set that a model comes with."""
    return DatasetManifest.model_validate(
        {
            "kind": "dataset",
            "name": dataset.name,
            "version": dataset.version,
            "licence": dataset.licence,
            "source": dataset.origin or "not told",
            "files": dict(dataset.files),
            "splits": dict(dataset.splits),
            "labelled": dataset.classes is not None,
            "classes": dataset.classes,
            "metrics": list(LABELLED if dataset.classes is not None else UNLABELLED),
        }
    )


def named_dataset(name: str) -> DatasetManifest | None:
    """Of the data set of that name (``evaluate.dataset``); None of the user's data, and of packages' that have none.

    UnknownKindError.
    """
    return of_source(name, DATASETS.load(name, "evaluate.dataset"))


def of_source(name: str, source: type[DataSource]) -> DatasetManifest | None:
    """The manifest of a data set that is named; None of one that has none."""
    described = source.described
    if described is None:
        return None
    return DatasetManifest.model_validate(
        {
            "kind": "dataset",
            "name": name,
            "version": described.version,
            "description": source.title,
            "licence": source.licence,
            "source": source.origin,
            "files": dict(described.files),
            "splits": dict(described.splits),
            "labelled": True,
            "classes": len(described.labels),
            "labels": described.labels,
            "metrics": described.metrics,
            "generated": source.generated,
            "samples_sha256": described.samples_sha256,
        }
    )
