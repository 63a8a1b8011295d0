"""Manifests of the data sets that built-in models come with."""

from __future__ import annotations

from collections.abc import Iterator

from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.manifests.kinds.dataset import DatasetManifest
from inferbench_tasks.modelrepo.zoo import ZOO

#: What can be measured where each sample has the label of one class, and where none has a label.
LABELLED, UNLABELLED = ("top1_ratio", "top5_ratio", "macro_f1", "auc"), ("agreement_ratio",)


def datasets() -> Iterator[DatasetManifest]:
    """One of each name."""
    names: set[str] = set()
    for name in ZOO:
        try:
            dataset = ZOO.load(name)(name, None).dataset()
        except InferBenchError:
            continue
        if dataset is not None and dataset.name not in names:
            names.add(dataset.name)
            yield _manifest(dataset)


def _manifest(dataset: Dataset) -> DatasetManifest:
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
