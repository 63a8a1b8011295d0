"""What people see of data sets: a row of each, and one in full."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from inferbench_tasks.datasets.base import DATASETS, Collection, DataSource
from inferbench_tasks.datasets.described import description_of
from inferbench_tasks.errors import InferBenchError

#: So many broken samples are named.
NAMED = 20


def rows() -> list[dict[str, Any]]:
    """A row of each data set; nothing is opened or fetched. One that can't be had says why."""
    return [row_or_reason(name) for name in DATASETS]


def row_or_reason(name: str) -> dict[str, Any]:
    """The row of one; of one that can't be had it says why."""
    try:
        return row(name)
    except InferBenchError as error:
        return {"name": name, "what": str(error), "form": None, "generated": None, "from": None}


def row(name: str) -> dict[str, Any]:
    """What a data set says of itself. UnknownKindError; InputError where a package's is none."""
    return DATASETS.told(name, partial(_row, name), "NAME")


def require_usable(name: str) -> None:
    """Refuse a name that is none, and what a package registers as a data set and is none, with what is wrong of it:
    used, it would fail in whatever way. UnknownKindError, InputError.
    """
    row(name)


def _row(name: str, source: type[DataSource]) -> dict[str, Any]:
    described = description_of(source)
    return {
        "name": name,
        "what": source.title,
        "form": source.form,
        "generated": "yes" if source.generated else "no",
        "needs": "evaluate.path" if source.takes_path else None,
        "from": source.origin,
        "licence": source.licence,
        "splits": ", ".join(source().splits(None)) or None,
        "manifest": f"{name}@{described.version}" if described else None,
        "by": DATASETS.origin(name),
    }


def facts(collection: Collection) -> dict[str, Any]:
    """Samples, classes with how many samples each has, what else is counted, and what is left out."""
    labels = collection.labels
    counts: dict[str, int] = {}
    if labels is not None:
        ids, each = np.unique(labels, return_counts=True)
        names = collection.classes
        counts = {
            names[at] if at < len(names) else str(at): int(n)
            for at, n in zip(ids.tolist(), each.tolist(), strict=True)
        }
    return {
        "name": collection.shown_name,
        "form": collection.form,
        **({"split": collection.split} if collection.split else {}),
        **({"all_splits": list(collection.all_splits)} if collection.all_splits else {}),
        "samples": collection.count,
        "classes": max(len(collection.classes), len(counts))
        if labels is not None or collection.classes
        else None,
        "class_order": "sorted names" if collection.by_name else "as given",
        "samples_by_class": counts,
        **collection.counts,
        "generated": collection.generated,
        "training": collection.training,
        "left_out": len(collection.left_out),
        "left_out_named": list(collection.left_out[:NAMED]),
    }
