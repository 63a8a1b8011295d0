"""Costs by provider and instance (``analysis.devices.costs``), with processors that were not measured, by their bricks.

Of a device that has timed a model's bricks the model's time is predicted (``stored.by_device``), and so its cost for
one user: USD/h of as many vCPUs as it takes / 3,600 s/h x seconds of a request / its samples x 1,000. Bricks are timed
on as many cores as threads, while what was measured pays for all cores that its job had, busy or not: a prediction
beside it pays for as many for a thread (the fewest of several jobs), or nobody would know whether the processor is
cheaper or the count. It is of the model alone: what a server adds is not in it, which each row says. A prediction of
which less than ``MEASURED_RATIO`` is measured, or that nothing calibrates, is refused: its interval would not have all
errors in it. The bricks have to be those of the very file that was served, by its digest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from inferbench_tasks.analysis.devices.alike import Document, stored
from inferbench_tasks.analysis.devices.costs import BY_BRICKS, Offer, in_order, offers, row_of
from inferbench_tasks.analysis.devices.places import THROUGHPUT
from inferbench_tasks.brick_jobs.coverage import MEASURED_RATIO, percent, too_little
from inferbench_tasks.brick_jobs.predict import CALIBRATE_ON
from inferbench_tasks.brick_jobs.stored import by_device
from inferbench_tasks.catalogue import prices_for
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.metrics.cost import hourly_rate
from inferbench_tasks.perfdb.store import PerfDB

WITHOUT_A_SERVER = "the model's time alone: what a server adds is not in it"
_GRANULARITY = "1"


def costs(db: PerfDB, query: str | Iterable[str] = "") -> list[Offer]:
    """Of the valid results that match, and of what is predicted beside them; InputError for a wrong query."""
    return costs_of(db, stored(db, query, (THROUGHPUT,)))


def costs_of(db: PerfDB, documents: Iterable[Document]) -> list[Offer]:
    """The same of results that are read already (``alike.stored``)."""
    return [with_bricks(db, offer) for offer in offers(documents)]


def with_bricks(db: PerfDB, offer: Offer) -> Offer:
    """The offer with a row for each processor that its bricks' times predict; a note for each that they don't."""
    if not _one_user(offer):
        return offer
    try:
        rows = by_device(
            db,
            offer.thing.model,
            offer.batch_size,
            _GRANULARITY,
            CALIBRATE_ON,
            precision=offer.thing.asked_precision,
        )
    except InputError as error:
        offer.notes.append(f"no processor is predicted by bricks: {error}")
        return offer
    return with_predictions(offer, rows)


def with_predictions(offer: Offer, rows: Iterable[Mapping[str, Any]]) -> Offer:
    """``rows``: as ``answer`` gives them, of one model on several devices."""
    served = {value_at(document, "model.digest") for document in offer.documents} | {offer.thing.digest}
    measured = {device.name for device in offer.best if device.kind == "cpu"}
    for row in rows:
        if row["device"] in measured:
            continue
        where = f"{row['device']}, {row['cores']} cores, {row['threads']} thread(s)"
        if row.get("shapes"):  # as it was cut last, whatever the runs beside it were asked
            where += f", inputs {row['shapes']}"
        prices = prices_for("cpu", row["device"])
        if why := _why_not(row, served, bool(prices)):
            offer.notes.append(f"not predicted: {where}: {why}")
            continue
        size, vcpus = row["batch_size"], _paid(offer, row)
        low_ms, high_ms = row["predicted_interval_ms"]
        for price in prices:
            offer.rows.append(
                row_of(
                    offer, price, hourly_rate(price, vcpus), where, BY_BRICKS,
                    size * 1e3 / row["predicted_ms"], (size * 1e3 / high_ms, size * 1e3 / low_ms),
                    rests_on=f"{percent(row['coverage_ratio'])} of its time measured, calibrated by "
                    f"{', '.join(row['calibrated_by'])}; {vcpus:g} vCPU(s) are paid; {WITHOUT_A_SERVER}",
                )
            )  # fmt: skip
    return in_order(offer)


def _paid(offer: Offer, row: Mapping[str, Any]) -> float:
    """vCPUs: those that it takes, and as many for each of its threads as the measured processors' jobs had for theirs;
    no more than these."""
    had = [
        device.cores * min(1.0, row["threads"] / _threads(best.candidate.documents[0]))
        for device, best in offer.best.items()
        if device.kind == "cpu" and device.cores
    ]
    return max(float(row["cores"]), min(had, default=0.0))


def _threads(document: Document) -> int:
    """Of all instances of the job's server."""
    serve = value_at(document, "provenance.job.serve") or value_at(document, "backend.settings") or {}
    return int(serve.get("threads") or 1) * int(serve.get("instances") or 1)


def _why_not(row: Mapping[str, Any], served: set[Any], priced: bool) -> str | None:
    if row["digest"] not in served:
        return "its bricks are of another file than the one that was served"
    if row["predicted_ms"] is None:
        return row.get("why") or f"{row['missing']} of {row['unique']} unique bricks have no time there"
    if row["coverage_ratio"] < MEASURED_RATIO:
        return too_little(row["coverage_ratio"])
    if not row["calibrated_by"]:
        return "nothing calibrates it, so its interval leaves out what cutting changes"
    if row["predicted_interval_ms"][0] <= 0:
        return "its interval reaches down to nothing"
    if not row["cores"]:
        return "how many cores it had is not known, and so not its share of an instance"
    return None if priced else "configs/prices.yaml has no instance with it"


def _one_user(offer: Offer) -> bool:
    """Whether one user waits for each answer: what a prediction of a request by itself can stand beside."""
    arrivals = value_at(offer.documents[0], "load.arrivals") or {}
    return arrivals.get("kind") == "single_stream" or arrivals.get("concurrency") == 1
