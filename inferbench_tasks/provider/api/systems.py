"""The model x system table over REST."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.analysis.systems.table import MEANINGS
from inferbench_tasks.analysis.systems.table import table as of_systems
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, plain, table
from inferbench_tasks.provider.api.problems import blame

router = APIRouter(tags=["systems"])
Models = Annotated[list[str], Query(max_length=50, description="Only these models; all without any.")]


@router.get("/systems", summary="The model x system table, with ranks")
def systems(request: Request, db: Store, model: Models = [], format: Format = None) -> Response:  # noqa: B006
    """``items``: a row for each model, stack and system with a valid run; ``meanings``: what a column is of.

    ``rank_COLUMN`` is within the model, 1 is best, equal where figures differ by noise only, or where it is not
    known which is better: ``tie_COLUMN`` says which.
    """
    with blame("model"):
        rows = of_systems(db, model)
    return table(request, format, rows, plain({"items": rows, "meanings": MEANINGS}), name="systems")
