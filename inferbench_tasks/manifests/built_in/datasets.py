"""Manifests of data sets: those that built-in models come with, and those that ``evaluate.dataset`` names."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from pydantic import ValidationError

from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.datasets.base import DATASETS, DataSource
from inferbench_tasks.datasets.described import LABELLED, UNLABELLED, description_of
from inferbench_tasks.errors import InferBenchError, InputError
from inferbench_tasks.manifests.kinds.dataset import DatasetManifest
from inferbench_tasks.manifests.reading import of_plain
from inferbench_tasks.modelrepo.zoo import ZOO, ZooFactory
from inferbench_tasks.submission.manifest_record import ManifestRecord

log = logging.getLogger(__name__)


def datasets() -> Iterator[DatasetManifest]:
    """One of each name that models have, and one of each that can be named and has one.

    A package's that is no manifest is left out, with the reason in the log: all others are asked for here, too.
    """
    names: set[str] = set()
    for name in ZOO:
        try:
            manifest = ZOO.told(name, partial(_brought, name))
        except (InferBenchError, ValidationError) as error:  # a package's hides no other
            log.warning("no manifest of the data set of the model %s: %s", name, error)
            continue
        if manifest is not None and manifest.name not in names:
            names.add(manifest.name)
            yield manifest
    for name in DATASETS:
        try:
            source = DATASETS.load(name)
        except InferBenchError:
            continue  # a third party's that can't be imported; whoever asks for it is told why
        try:
            named = of_source(name, source)
        except InputError as error:
            log.warning("no manifest of the data set %s: %s", name, error)
            continue
        if named is not None:
            yield named


def _brought(name: str, made: ZooFactory) -> DatasetManifest | None:
    dataset = made(name, None).dataset()
    return None if dataset is None else of_model(dataset)


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

    UnknownKindError; InputError where a package's says of itself what no manifest can.
    """
    return of_source(name, DATASETS.load(name, "evaluate.dataset"))


def require_resolved(records: Iterable[ManifestRecord], name: str, manifest: DatasetManifest | None) -> None:
    """InputError where the data set of that name is another version here than a submission's name was resolved to.

    ``manifest``: of the data set as it is here. Who reads a submission may have another release than who runs it.
    """
    for record in records:
        if (record.kind, record.name) == ("dataset", name) and (
            manifest is None or manifest.digest != record.digest
        ):
            here = "one without a manifest" if manifest is None else f"{manifest.id} ({manifest.digest[:12]})"
            raise InputError(
                f"{record.asked} is {record.id} ({record.digest[:12]}) where the submission was read, and {here} here; "
                "have the same release on both, or read the submission again",
                field="evaluate.dataset",
            )


def of_source(name: str, source: type[DataSource]) -> DatasetManifest | None:
    """The manifest of a data set that is named; None of one that has none. InputError where what it says is none."""
    try:
        content = _content(name, source)
        manifest = None if content is None else of_plain(content, "described")
    # Of a package's class nobody has checked what it holds.
    except (AttributeError, TypeError, ValueError, InputError) as error:
        raise InputError(
            f"what the data set {name} ({DATASETS.origin(name)}) says of itself is no manifest, so it can't be used: "
            f"{error}"
        ) from error
    assert manifest is None or isinstance(manifest, DatasetManifest)
    return manifest


def _content(name: str, source: type[DataSource]) -> dict[str, Any] | None:
    described = description_of(source)
    if described is None:
        return None
    return {
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
        "split_sha256": dict(described.split_sha256),
    }
