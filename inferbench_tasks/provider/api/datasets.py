"""The data sets that models are evaluated on, over REST."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from inferbench_tasks.datasets.about import rows
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, table

router = APIRouter(tags=["datasets"])


@router.get("/datasets", summary="The data sets that models can be evaluated on")
def list_datasets(request: Request, db: Store, format: Format = None) -> Response:
    """``items``: name, what it has, whether it is generated, where it comes from. Nothing is opened or fetched."""
    found = rows()
    return table(request, format, found, {"items": found}, name="datasets")
