"""The pages of data sets: which there are, and one with its versions, what can be measured on it, and results."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, HTTPException
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.evaluations.found import evaluations
from inferbench_tasks.datasets.about import rows
from inferbench_tasks.manifests.catalogue import Catalogue
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.datasets import about
from inferbench_tasks.provider.api.output import CSV_ROWS
from inferbench_tasks.provider.ui.evaluation_pages import Evaluated
from inferbench_tasks.provider.ui.render import page, query

router = APIRouter(include_in_schema=False)
#: Of a data set's results so many are on its page, and so many names of its classes.
MOST_RESULTS, MOST_LABELS = 20, 200


@router.get("/datasets", response_class=HTMLResponse)
def list_datasets(db: Store) -> HTMLResponse:
    """Those that submissions can name, and those that only models bring or manifests tell of."""
    named, catalogue = rows(), Catalogue.shown(db, "dataset")
    return page(
        "datasets.html",
        here="datasets",
        named=named,
        others=_others(catalogue, named),
        wrong=catalogue.wrong,
    )


@router.get("/dataset/{name}", response_class=HTMLResponse)
def one_dataset(name: str, db: Store) -> HTMLResponse:
    """All that is said of one without opening it."""
    catalogue = Catalogue.shown(db, "dataset")
    try:
        known = about(catalogue, name)
    except HTTPException as error:
        return page(
            "dataset.html",
            status=404,
            here="datasets",
            name=name,
            problem=str(error.detail),
            known=None,
            wrong=catalogue.wrong,
        )
    found = evaluations(db, "", name, MOST_RESULTS + 1)
    return page(
        "dataset.html",
        here="datasets",
        name=name,
        problem=None,
        known=known,
        wrong=catalogue.wrong,
        most_labels=MOST_LABELS,
        of=Evaluated.of(found[:MOST_RESULTS]),
        all_results="/inferbench/evaluations" + query(dataset=name) if len(found) > MOST_RESULTS else None,
        csv="/inferbench/api/evaluations" + query(dataset=name, limit=CSV_ROWS, format="csv"),
    )


def _others(catalogue: Catalogue, named: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The newest manifest of each data set that is none of these."""
    names = {row["name"] for row in named}
    newest: dict[str, dict[str, Any]] = {}
    for entry in catalogue.entries("dataset"):
        if entry.manifest.name not in names:
            newest.setdefault(entry.manifest.name, {**entry.row(), "licence": entry.manifest.licence})
    return list(newest.values())
