"""The page of devices side by side: speed-ups over a reference, and costs by provider and instance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from inferbench_tasks.analysis.charts import devices as charts
from inferbench_tasks.analysis.devices import costs as of_instances
from inferbench_tasks.analysis.devices import speedup as of_devices
from inferbench_tasks.analysis.devices.alike import Newest, newest
from inferbench_tasks.analysis.devices.places import THROUGHPUT
from inferbench_tasks.brick_jobs.instance_costs import costs_of
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.provider.api.access import Store
from inferbench_tasks.provider.ui.filters import Filters, suggestions
from inferbench_tasks.provider.ui.render import page, query
from inferbench_tasks.provider.ui.titled import titled

router = APIRouter(include_in_schema=False)
#: So many models and loads have their costs shown at a time.
MOST_OFFERS = 12
#: Results that are looked at for a page: of the models with the newest ones.
MOST_RUNS = 300


@router.get("/devices", response_class=HTMLResponse)
def devices(
    db: Store,
    filters: Filters,
    reference: Annotated[str, Query(max_length=300)] = of_devices.USUAL_REFERENCE,
    by: Annotated[str, Query(max_length=100)] = of_devices.USUAL_STATISTIC,
) -> HTMLResponse:
    """Speed-ups by model, then costs by model and load; both of one reading of the results."""
    problem: str | None = None
    read: Newest | None = None
    found = of_devices.Speedups([])
    offers: list[of_instances.Offer] = []
    reference = reference.strip() or of_devices.USUAL_REFERENCE
    try:
        statistic = of_devices.known_statistic(by)
        read = newest(db, filters.terms(), (THROUGHPUT, statistic), MOST_RUNS)
        documents = read.documents
        # What has no price says why in its notes; it stands behind what has one.
        offers = sorted(costs_of(db, documents), key=lambda offer: not offer.rows)
        found = of_devices.speedups(documents, reference, statistic)
    except InputError as error:
        cut = read is not None and read.shown < read.models
        problem = f"Of the models that are shown: {error}" if cut else str(error)
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
        read=read,
        speedups=found,
        groups=_by_thing(found.rows),
        drawing=titled(charts.speedups(found.rows)),
        speedup_meanings=of_devices.MEANINGS,
        offers=[
            {"of": offer, "drawing": titled(charts.costs(offer.rows, offer.words))}
            for offer in offers[:MOST_OFFERS]
        ],
        more=max(0, len(offers) - MOST_OFFERS),
        repeated=repeated([offer.notes for offer in offers[:MOST_OFFERS]]),
        priced=any(offer.rows for offer in offers),
        cost_meanings=of_instances.MEANINGS,
        speedup_csv="/inferbench/api/speedup" + query(**asked, reference=reference, by=by),
        costs_csv="/inferbench/api/costs" + query(**asked),
    )


def repeated(notes: Sequence[Sequence[str]]) -> dict[str, int]:
    """What is said of more than one of them: it is said once, with how many it is of."""
    counts = Counter(note for of_one in notes for note in dict.fromkeys(of_one))
    return {note: count for note, count in counts.items() if count > 1}


def _by_thing(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The rows of each model that is compared: what they share is told once."""
    shared = itemgetter("model", "precision", "model_digest", "task", "protocol", "asked")
    return [list(group) for _, group in groupby(rows, shared)]
