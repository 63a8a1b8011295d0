"""Figure 8(b) of the InferBench paper: the cost of 1,000 samples on each provider's instances, side by side.

Under one load each measured device stands at its largest throughput, priced at each instance of the catalogue that has
it: USD/h / 3,600 s/h / samples/s x 1,000, with the throughput's 95% interval turned over. The catalogue of today
counts, not that of the run. Instances whose GPU was not measured are predicted by ``roofline``; those of processors by
their bricks (``brick_jobs.instance_costs``). A prediction says what it rests on, and where it can't be made there is no
row but a note that says why. A server that merges requests (``serve.batching``) is another thing than one that does
not, and predictions are of one that does not: each row says which it is, and a device whose best merges has a second
row, of its best that does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.analysis.devices.alike import Device, Document, Thing, alike
from inferbench_tasks.analysis.devices.places import THROUGHPUT, throughput_of
from inferbench_tasks.analysis.devices.roofline import Measured, predicted
from inferbench_tasks.analysis.recommend.candidates import Candidate, describe
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.analysis.recommend.moved import moved_notes
from inferbench_tasks.analysis.recommend.versions import versions_notes
from inferbench_tasks.catalogue import Price, price_rows, prices_for
from inferbench_tasks.dotted import value_at
from inferbench_tasks.formats.computed_precision import computed_in
from inferbench_tasks.metrics.cost import hourly_rate, usd_per_1k
from inferbench_tasks.perfdb.offered import of_requests, offered

MEASURED, BY_ROOFLINE, BY_BRICKS = "measured", "predicted: roofline", "predicted: bricks"
MERGED, UNMERGED = "merged", "not merged"
#: Column -> what it is, for people.
MEANINGS = {
    "basis": "measured, or predicted and from what",
    "requests_merged": "whether the server merges waiting requests into larger ones (serve.batching); predictions are "
    "of one that does not",
    "asked": "what each request carries, over the protocol beside it: only equal requests stand side by side",
    "usd_per_1k_samples": "USD/h of the device's share of the instance / 3,600 s/h / samples/s x 1,000",
    "ci95": "its 95% interval, of the throughput alone with its spread from run to run, widened for the choice of the "
    "best of so many configurations: a price is what the catalogue says",
    "usd_per_hour": "of one device of the instance, or of as many vCPUs as the run had",
    "price": "the date of the rate, and whether it is approximate or nobody looked it up",
}
#: A part of a GPU (NVIDIA's multi-instance GPU), which its name ends with.
SLICE = re.compile(r"\bMIG\b")
Row = dict[str, Any]


@dataclass(frozen=True)
class Best:
    """The configuration with the largest throughput of so many ``compared``."""

    candidate: Candidate
    compared: int

    @classmethod
    def of(cls, group: Sequence[Candidate]) -> Best:
        return cls(max(group, key=throughput_of), len(group))

    @property
    def samples_per_s(self) -> float:
        return throughput_of(self.candidate)


@dataclass
class Offer:
    """One model, precision and load: what was measured of it, by device, and the rows so far."""

    thing: Thing
    load: str
    batch_size: int
    best: dict[Device, Best]
    #: The best of those whose server merges no requests: of the others nobody knows the batch that the device ran.
    unmerged: dict[Device, Best] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def documents(self) -> list[Document]:
        """A result of each device."""
        return [best.candidate.documents[0] for best in self.best.values()]

    @property
    def words(self) -> str:
        """What it is of, in front of a note."""
        return f"{self.thing.words}, {self.load}"


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
            best = {device: Best.of(group) for device, group in on_devices.items()}
            apart = {
                device: [one for one in group if not _merges(one)] for device, group in on_devices.items()
            }
            unmerged = {device: Best.of(group) for device, group in apart.items() if group}
            made.append(_offer(Offer(thing, load, size, best, unmerged), judge))
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
    usd_per_hour: float,
    device: str,
    basis: str,
    samples_per_s: float,
    interval: Sequence[float],
    **more: Any,
) -> Row:
    """One instance; ``usd_per_hour``: of what gives ``samples_per_s``. An ``interval`` of it that reaches 0 gives none
    of the cost.
    """
    low, high = interval
    return {
        **offer.thing.columns,
        "load": offer.load,
        "batch_size": offer.batch_size,
        "provider": price.provider,
        "instance": price.instance,
        "region": price.region,
        "device": device,
        "basis": basis,
        "requests_merged": UNMERGED,
        "usd_per_1k_samples": usd_per_1k(usd_per_hour, samples_per_s),
        "ci95": [usd_per_1k(usd_per_hour, high), usd_per_1k(usd_per_hour, low)] if low > 0 else None,
        THROUGHPUT: samples_per_s,
        "usd_per_hour": usd_per_hour,
        "price": ", ".join(
            [price.date, *(word for word in ("approximate", "unverified") if getattr(price, word))]
        ),
        "configuration": None,
        "run": None,
        "rests_on": None,
        **more,
    }


def _offer(offer: Offer, judge: Judge) -> Offer:
    shown = {
        device: [best, *(own for own in [offer.unmerged.get(device)] if own and _merges(best.candidate))]
        for device, best in offer.best.items()
    }
    for device, group in shown.items():
        names = describe([each.candidate for each in group])
        if why := _without_a_price(device):
            offer.notes.append(f"{device.words}: {why}")
            continue
        offer.notes += moved_notes([each.candidate for each in group], names, [THROUGHPUT])
        for price in prices_for(device.kind, device.name):
            usd_per_hour = hourly_rate(price, device.cores if device.kind == "cpu" else None)
            for one in group:
                interval = judge.interval95(one.candidate, THROUGHPUT, one.compared)
                offer.rows.append(
                    row_of(
                        offer, price, usd_per_hour, device.words, MEASURED, one.samples_per_s, interval,
                        requests_merged=MERGED if _merges(one.candidate) else UNMERGED,
                        configuration=names[one.candidate.key], run=one.candidate.documents[0]["run_id"],
                    )
                )  # fmt: skip
    offer.notes += versions_notes({device.words: best.candidate for device, best in offer.best.items()})
    _predict(offer)
    return in_order(offer)


def _without_a_price(device: Device) -> str | None:
    """Why the catalogue has none of that device."""
    if SLICE.search(device.name):
        return "a slice of a GPU, and the catalogue has prices of whole ones"
    if not prices_for(device.kind, device.name):
        return "configs/prices.yaml has no instance with it"
    if device.kind == "cpu" and not device.cores:
        return "its results are from before cores were stored: its share of an instance is not known"
    return None


def _predict(offer: Offer) -> None:
    """Instances with a GPU that was not measured."""
    priced = {(row["provider"], row["instance"], row["region"]) for row in offer.rows}
    ran = [
        (device.name, best.samples_per_s, best.candidate.documents[0])
        for device, best in offer.unmerged.items()
        if device.kind == "gpu" and not SLICE.search(device.name)
    ]
    measured = [Measured(name, samples_per_s, document["model"]) for name, samples_per_s, document in ran]
    asked = offer.thing.asked_precision
    computed = {
        computed_in(asked, document["model"].get("precision"), str(document.get("format")))
        for _, _, document in ran
    } or {asked}
    precision = computed.pop() if len(computed) == 1 else None
    for device in offer.best:
        if device.kind == "gpu" and device not in offer.unmerged:
            offer.notes.append(f"{device.words}: its server merges requests, so no roofline rests on it")
    refused: dict[str, list[str]] = {}
    for price in price_rows():
        if price.kind != "gpu" or (price.provider, price.instance, price.region) in priced:
            continue
        found = predicted(price.device, measured, precision, offer.batch_size, price.memory_gb)
        if isinstance(found, str):
            refused.setdefault(found, []).append(f"{price.provider} {price.instance}")
            continue
        offer.rows.append(
            row_of(
                offer, price, hourly_rate(price, None), price.device, BY_ROOFLINE, found.throughput_samples_per_s,
                found.interval, rests_on=found.rests_on,
            )
        )  # fmt: skip
    offer.notes += [f"not predicted: {', '.join(names)}: {why}" for why, names in refused.items()]


def _load_of(one: Candidate) -> tuple[str, int]:
    load = one.documents[0].get("load") or {}
    size = int(load.get("batch_size") or 1)
    return of_requests(offered(load), size), size


def _merges(one: Candidate) -> bool:
    return value_at(one.documents[0], "provenance.job.serve.batching") is not None
