"""The page of devices side by side: speed-ups over a reference, and costs by provider and instance."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.charts import devices as charts
from inferbench_tasks.analysis.devices import costs as of_instances
from inferbench_tasks.analysis.devices import speedup as of_devices
from inferbench_tasks.brick_jobs.instance_costs import costs as side_by_side
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.ui.filters import Filters, suggestions
from inferbench_tasks.provider.ui.render import page, query

router = APIRouter(include_in_schema=False)
#: So many models and loads have their costs shown at a time.
MOST_OFFERS = 12


@router.get("/devices", response_class=HTMLResponse)
def devices(
    db: Store,
    filters: Filters,
    reference: Annotated[str, Query(max_length=300)] = of_devices.USUAL_REFERENCE,
    by: Annotated[str, Query(max_length=100)] = of_devices.USUAL_STATISTIC,
) -> HTMLResponse:
    """Speed-ups by model, then costs by model and load."""
    problem: str | None = None
    found = of_devices.Speedups([])
    offers: list[of_instances.Offer] = []
    reference = reference.strip() or of_devices.USUAL_REFERENCE
    try:
        offers = [offer for offer in side_by_side(db, filters.terms()) if offer.rows]
        found = of_devices.of_stored(db, filters.terms(), reference, by)
    except InputError as error:
        problem = str(error)
    asked: dict[str, Any] = {"q": filters.joined(), "format": "csv"}
    return page(
        "devices.html",
        here="devices",
        given=filters,
        known=suggestions(db),
        reference=reference,
        by=by,
        statistics=[FIGURES[name] for name in of_devices.STATISTICS],
        problem=problem,
        speedups=found,
        chart=charts.speedups(found.rows),
        speedup_meanings=of_devices.MEANINGS,
        offers=[
            {"of": offer, "chart": charts.costs(offer.rows, offer.words)} for offer in offers[:MOST_OFFERS]
        ],
        more=max(0, len(offers) - MOST_OFFERS),
        cost_meanings=of_instances.MEANINGS,
        speedup_csv="/inferbench/api/speedup" + query(**asked, reference=reference, by=by),
        costs_csv="/inferbench/api/costs" + query(**asked),
    )
