"""The data sets that models are evaluated on, over REST."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from inferbench_tasks.datasets.about import row_or_reason, rows
from inferbench_tasks.datasets.base import DATASETS
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.manifests.catalogue import Catalogue
from inferbench_tasks.problem import did_you_mean
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, table
from inferbench_tasks.provider.api.problems import not_found
from inferbench_tasks.quality.base import Measure
from inferbench_tasks.quality.measures import MEASURES
from inferbench_tasks.registry import derived

router = APIRouter(tags=["datasets"])


@router.get("/datasets", summary="The data sets that models can be evaluated on")
def list_datasets(request: Request, db: Store, format: Format = None) -> Response:
    """``items``: name, what it has, whether it is generated, where it comes from. Nothing is opened or fetched."""
    found = rows()
    return table(request, format, found, {"items": found}, name="datasets")


@router.get("/datasets/{name}", summary="One data set: its versions, and what can be measured on it")
def one_dataset(name: str, request: Request, db: Store) -> Response:
    """``dataset``: its row, null for one that only models bring; ``versions``: its manifests in full, the newest first,
    each with its digest and where it is; ``metrics``: formula and unit of each. Nothing is opened or fetched; its
    results are those of ``/evaluations?dataset=``. 404 says which there are.
    """
    return table(request, "json", [], about(Catalogue.here(db, "dataset"), name))


def about(catalogue: Catalogue, name: str) -> dict[str, Any]:
    """What ``GET /datasets/{name}`` answers; 404 for a name that no data set has. ``catalogue``: of data sets."""
    entries = catalogue.entries("dataset", name)
    if name not in DATASETS and not entries:
        known = sorted({*DATASETS, *(entry.manifest.name for entry in catalogue.entries("dataset"))})
        hint = did_you_mean(name, known) or f"; known: {', '.join(known)}"
        raise not_found(f"there is no data set {name[:100]!r}{hint}")
    versions = [
        {
            **entry.manifest.content(),
            "digest": entry.manifest.digest,
            "origin": entry.origin,
            "conflict": entry.conflict or None,
        }
        for entry in entries
    ]
    measured = dict.fromkeys(metric for each in versions for metric in each.get("metrics", ()))
    return {
        "name": name,
        "dataset": row_or_reason(name) if name in DATASETS else None,
        "versions": versions,
        "metrics": [_metric(metric) for metric in measured],
    }


def _metric(name: str) -> dict[str, Any]:
    """By the table of figures; a package's measure says less of itself, and one that is not here nothing."""
    if (figure := FIGURES.get(name)) is not None:
        return {
            "name": name,
            "title": figure.title,
            "formula": figure.formula,
            "unit": figure.shown_unit,
            "better": figure.better,
        }
    nothing: dict[str, Any] = dict.fromkeys(("title", "formula", "unit", "better"))
    try:
        measure = MEASURES.told(name, lambda found: derived(found, Measure))
    except InputError:
        return {"name": name, **nothing}
    return {
        "name": name,
        **nothing,
        "title": measure.title,
        "formula": measure.formula,
        "better": measure.better,
    }
