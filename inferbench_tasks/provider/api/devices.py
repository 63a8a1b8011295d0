"""Devices side by side over REST: speed-ups over a reference, and costs by provider and instance."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from inferbench_tasks.analysis.devices import costs as of_instances
from inferbench_tasks.analysis.devices import speedup as of_devices
from inferbench_tasks.brick_jobs.instance_costs import costs as side_by_side
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.api.output import Format, table
from inferbench_tasks.provider.api.problems import blame
from inferbench_tasks.provider.api.runs import Q

router = APIRouter(tags=["devices"])
Reference = Annotated[str, Query(max_length=300, description="cpu, gpu, or part of a device's name.")]
By = Annotated[str, Query(max_length=100, description="The latency that is the objective, such as p99_ms.")]


@router.get("/speedup", summary="How much more each device serves within a reference's latency")
def speedup(
    request: Request,
    db: Store,
    q: Q = "",
    reference: Reference = of_devices.USUAL_REFERENCE,
    by: By = of_devices.USUAL_STATISTIC,
    format: Format = None,
) -> Response:
    """``items``: for each model and precision the reference, then the other devices, with ``speedup`` and ``ci95``, or
    with a ``reason`` where none of its configurations keeps the bound; ``notes``: what is left out; ``meanings``.
    """
    with blame("q"):
        parse(q)
    with blame("by"):
        of_devices.known_statistic(by)
    with blame("reference"):
        found = of_devices.of_stored(db, q, reference, by)
    body = {"items": found.rows, "notes": found.notes, "meanings": of_devices.MEANINGS}
    return table(request, format, found.rows, body, name="speedup")


@router.get("/costs", summary="The cost of 1,000 samples by provider and instance")
def costs(request: Request, db: Store, q: Q = "", format: Format = None) -> Response:
    """``items``: for each model and load its instances, the cheapest first; ``basis`` says whether it is measured, or
    predicted and from what; ``notes``: what can't be predicted, and why; ``meanings``.
    """
    with blame("q"):
        offers = side_by_side(db, q)
    rows = [row for offer in offers for row in offer.rows]
    notes = [f"{offer.words}: {note}" for offer in offers for note in offer.notes]
    return table(
        request,
        format,
        rows,
        {"items": rows, "notes": notes, "meanings": of_instances.MEANINGS},
        name="costs",
    )
