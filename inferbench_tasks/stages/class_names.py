"""Part of ``generate`` and ``evaluate``: answers of models whose classes have names, as the data set's classes."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from inferbench_tasks.contracts.dataset import Dataset
from inferbench_tasks.datasets.fit import Fitted
from inferbench_tasks.quality.named_classes import ClassReader, reader_of

_FILE = "class_names.json"
#: Under which the result says how answers are read.
KIND = "class_names"


def reader_for(dataset: Dataset) -> ClassReader | None:
    """None where the data set's classes are the model's by their numbers. InputError where the model never names one of
    them."""
    if not isinstance(dataset, Fitted) or dataset.named_classes is None:
        return None
    return reader_of(dataset.named_classes, dataset.collection.classes, dataset.collection.name)


def facts(reader: ClassReader) -> dict[str, object]:
    """What the result says of it: how many classes the model has, the data set's by their number, the maker's rule."""
    return {"of_model": len(reader.labels), "of_dataset": reader.count, "own_rule": reader.rule}


def write(folder: Path, reader: ClassReader) -> None:
    """Beside the samples."""
    (folder / _FILE).write_text(json.dumps(asdict(reader)))


def read(folder: Path) -> ClassReader | None:
    """What ``write`` left; None where nothing is to be read."""
    path = folder / _FILE
    if not path.exists():
        return None
    kept = json.loads(path.read_text())
    return ClassReader(
        tuple(kept["labels"]), tuple(kept["least"]), tuple(kept["below"]), kept["count"], kept["rule"]
    )
