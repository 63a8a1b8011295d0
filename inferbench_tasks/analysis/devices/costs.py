"""Figure 8(b) of the InferBench paper: the cost of 1,000 samples on each provider's instances, side by side.

Under one load each measured device stands at its largest throughput, priced at each instance of the catalogue that has
it: USD/h / 3,600 s/h / samples/s x 1,000, with the throughput's 95% interval turned over. The catalogue of today
counts, not that of the run. Instances whose GPU was not measured are predicted by ``roofline``; those of processors by
their bricks (``brick_jobs.instance_costs``). A prediction says what it rests on, and where it can't be made there is no
row but a note that says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.analysis.devices.alike import Device, Document, Thing, alike, stored
from inferbench_tasks.analysis.devices.roofline import Measured, foretold
from inferbench_tasks.analysis.recommend.candidates import Candidate, describe
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.catalogue import Price, price_rows, prices_for
from inferbench_tasks.dotted import value_at
from inferbench_tasks.metrics.cost import hourly_rate, usd_per_1k
from inferbench_tasks.perfdb.offered import of_requests, offered
from inferbench_tasks.perfdb.store import PerfDB

THROUGHPUT = "throughput_samples_per_s"
MEASURED, BY_ROOFLINE, BY_BRICKS = "measured", "predicted: roofline", "predicted: bricks"
#: Column -> what it is, for people.
MEANINGS = {
    "basis": "measured, or predicted and from what",
    "usd_per_1k_samples": "USD/h of the device's share of the instance / 3,600 s/h / samples/s x 1,000",
    "ci95": "its 95% interval, of the throughput alone, of the best of so many configurations: a price is what the "
    "catalogue says",
    "usd_per_hour": "of one device of the instance, or of as many vCPUs as the run had",
    "price": "the date of the rate, and whether it is approximate or nobody looked it up",
}
#: A part of a GPU (NVIDIA's multi-instance GPU), which its name ends with.
SLICE = re.compile(r"\bMIG\b")
Row = dict[str, Any]


@dataclass
class Offer:
    """One model, precision and load: what was measured of it, by device, and the rows so far."""

    thing: Thing
    load: str
    batch_size: int
    best: dict[Device, Candidate]
    #: The best of those whose server merges no requests: of the others nobody knows the batch that the device ran.
    unmerged: dict[Device, Candidate] = field(default_factory=dict)
    #: Of how many configurations each is the best.
    compared: dict[Device, int] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def documents(self) -> list[Document]:
        """A result of each device."""
        return [candidate.documents[0] for candidate in self.best.values()]

    @property
    def words(self) -> str:
        """What it is of, in front of a note."""
        return f"{self.thing.words}, {self.load}"


def of_stored(db: PerfDB, query: str | Iterable[str] = "") -> list[Offer]:
    """Of the valid results that match; each with what was measured and what a roofline tells."""
    return offers(stored(db, query, (THROUGHPUT,)))


def offers(documents: Iterable[Document]) -> list[Offer]:
    """Of results as plain nested mappings, the newest first. Rows are sorted by their cost, the cheapest first."""
    made: list[Offer] = []
    grouped = alike(documents)
    judge = Judge([each for devices in grouped.values() for group in devices.values() for each in group])
    for thing, devices in grouped.items():
        by_load: dict[tuple[str, int], dict[Device, list[Candidate]]] = {}
        for device, group in devices.items():
            for one in group:
                if one.mean(THROUGHPUT):
                    by_load.setdefault(_load_of(one), {}).setdefault(device, []).append(one)
        for (load, size), on_devices in sorted(by_load.items(), key=lambda item: (item[0][1], item[0][0])):
            best = {device: max(group, key=_throughput) for device, group in on_devices.items()}
            apart = {
                device: [one for one in group if not _merges(one)] for device, group in on_devices.items()
            }
            unmerged = {device: max(group, key=_throughput) for device, group in apart.items() if group}
            compared = {device: len(group) for device, group in on_devices.items()}
            made.append(_offer(Offer(thing, load, size, best, unmerged, compared), judge))
    return made


def in_order(offer: Offer) -> Offer:
    """Its rows sorted again, the cheapest first."""
    offer.rows.sort(key=lambda row: (row["usd_per_1k_samples"], row["provider"], row["instance"]))
    return offer


def doubts(row: Row) -> list[str]:
    """The words of its price beside the date: ``approximate``, ``unverified``."""
    return str(row["price"]).split(", ")[1:]


def row_of(
    offer: Offer,
    price: Price,
    rate: float,
    device: str,
    basis: str,
    per_s: float,
    interval: Sequence[float],
    **more: Any,
) -> Row:
    """One instance; ``rate``: USD/h for what gives ``per_s`` samples/s. An ``interval`` of it that reaches 0 gives none
    of the cost.
    """
    low, high = interval
    return {
        "model": offer.thing.model,
        "task": offer.thing.task or None,
        "precision": offer.thing.precision,
        "model_digest": offer.thing.digest,
        "load": offer.load,
        "batch_size": offer.batch_size,
        "provider": price.provider,
        "instance": price.instance,
        "region": price.region,
        "device": device,
        "basis": basis,
        "usd_per_1k_samples": usd_per_1k(rate, per_s),
        "ci95": [usd_per_1k(rate, high), usd_per_1k(rate, low)] if low > 0 else None,
        THROUGHPUT: per_s,
        "usd_per_hour": rate,
        "price": ", ".join(
            [price.date, *(word for word in ("approximate", "unverified") if getattr(price, word))]
        ),
        "configuration": None,
        "run": None,
        "rests_on": None,
        **more,
    }


def _offer(offer: Offer, judge: Judge) -> Offer:
    names = describe(list(offer.best.values()))
    for device, one in offer.best.items():
        if SLICE.search(device.name):
            offer.notes.append(
                f"{device.words}: a slice of a GPU, and the catalogue has prices of whole ones"
            )
            continue
        matching = prices_for(device.kind, device.name)
        if matching and device.kind == "cpu" and not device.cores:
            offer.notes.append(
                f"{device.words}: its results are from before cores were stored: its share of an instance is not known"
            )
            continue
        if not matching:
            offer.notes.append(f"{device.words}: configs/prices.yaml has no instance with it")
        for price in matching:
            rate = hourly_rate(price, device.cores if device.kind == "cpu" else None)
            interval = judge.interval95(one, THROUGHPUT, offer.compared[device])
            offer.rows.append(
                row_of(
                    offer, price, rate, device.words, MEASURED, _throughput(one), interval,
                    configuration=names[one.key], run=one.documents[0]["run_id"],
                )
            )  # fmt: skip
    _predict(offer)
    return in_order(offer)


def _predict(offer: Offer) -> None:
    """Instances with a GPU that was not measured."""
    priced = {(row["provider"], row["instance"], row["region"]) for row in offer.rows}
    measured = [
        Measured(device.name, _throughput(one), one.documents[0]["model"])
        for device, one in offer.unmerged.items()
        if device.kind == "gpu" and not SLICE.search(device.name)
    ]
    for device in offer.best:
        if device.kind == "gpu" and device not in offer.unmerged:
            offer.notes.append(f"{device.words}: its server merges requests, so no roofline rests on it")
    refused: dict[str, list[str]] = {}
    for price in price_rows():
        if price.kind != "gpu" or (price.provider, price.instance, price.region) in priced:
            continue
        found = foretold(price.device, measured, offer.thing.precision, offer.batch_size, price.memory_gb)
        if isinstance(found, str):
            refused.setdefault(found, []).append(f"{price.provider} {price.instance}")
            continue
        offer.rows.append(
            row_of(
                offer, price, hourly_rate(price, None), price.device, BY_ROOFLINE, found.per_s, found.interval,
                rests_on=found.rests_on,
            )
        )  # fmt: skip
    offer.notes += [f"not predicted: {', '.join(names)}: {why}" for why, names in refused.items()]


def _load_of(one: Candidate) -> tuple[str, int]:
    load = one.documents[0].get("load") or {}
    size = int(load.get("batch_size") or 1)
    return of_requests(offered(load), size), size


def _merges(one: Candidate) -> bool:
    return value_at(one.documents[0], "provenance.job.serve.batching") is not None


def _throughput(one: Candidate) -> float:
    return one.mean(THROUGHPUT) or 0.0
