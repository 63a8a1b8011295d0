"""Figure 7(c) of the InferBench paper: how much more each device serves than a reference within its latency.

The objective is the latency of one user who asks the reference device one sample and waits, at the quickest of its
configurations: L. Of each device, the reference too, the configuration with the largest throughput among those whose
latency is at most L counts: speed-up = its samples/s / the reference's.

Latencies have errors, so a configuration close to L keeps it with a probability: surely from ``certainty.SETTLED``
on, possibly down to 1 - ``SETTLED``. With the 95% interval [l, h] of the ratio of two throughputs (``certainty``) the
interval of a speed-up is

    [max over sure i of min over possible j of l(i, j),  max over possible i of min over sure j of h(i, j)]

over the device's configurations i and the reference's j: what stands on a configuration that may break the objective
widens it. It begins at 0 where no configuration surely keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.analysis.certainty import SETTLED, Change
from inferbench_tasks.analysis.devices.alike import Device, Document, Thing, alike, in_order, stored
from inferbench_tasks.analysis.recommend.candidates import Candidate, describe
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.analysis.systems.found import one_at_a_time
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.store import PerfDB

THROUGHPUT = "throughput_samples_per_s"
#: By which latency the objective can be.
STATISTICS = ("mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms")
USUAL_STATISTIC, USUAL_REFERENCE = "p99_ms", "cpu"
#: Column -> what it is, for people.
MEANINGS = {
    "speedup": "samples/s of the device over those of the reference, each at the best of its configurations whose "
    "latency is at most bound_ms",
    "ci95": "its 95% interval; it is wider where a configuration keeps the bound only perhaps",
    "bound_ms": "the reference's latency, one user with one sample at a time: the objective for all",
    "keeps_slo_probability": "that the device's configuration really keeps the bound",
    "configuration": "the device's best one within the bound",
}


@dataclass(frozen=True)
class Speedups:
    """``rows``: one for each model, precision and device, the reference first; ``notes``: what is left out, and why."""

    rows: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Place:
    """A configuration: its samples/s, its latency, and the probability that it keeps the objective."""

    candidate: Candidate
    throughput: float
    latency_ms: float
    keeps: float

    @property
    def sure(self) -> bool:
        return self.keeps >= SETTLED

    @property
    def possible(self) -> bool:
        return self.keeps >= 1 - SETTLED


def of_stored(
    db: PerfDB,
    query: str | Iterable[str] = "",
    reference: str = USUAL_REFERENCE,
    statistic: str = USUAL_STATISTIC,
) -> Speedups:
    """Of the valid results that match; InputError for a statistic or a reference that there is not."""
    statistic = known_statistic(statistic)
    return speedups(stored(db, query, (THROUGHPUT, statistic)), reference, statistic)


def known_statistic(name: str) -> str:
    """The latency's name; InputError lists what is allowed."""
    figure = FIGURES.get(name)
    if figure is None or figure.name not in STATISTICS:
        raise InputError(
            f"{name[:60]!r} is no latency that an objective can be by; allowed: {', '.join(STATISTICS)}",
            field="statistic",
        )
    return figure.name


def speedups(
    documents: Iterable[Document],
    reference: str = USUAL_REFERENCE,
    statistic: str = USUAL_STATISTIC,
) -> Speedups:
    """Of results as plain nested mappings, the newest first.

    ``reference``: ``cpu`` or ``gpu``, or part of a device's name (``EPYC``; ``EPYC, 2 cores``). InputError where no
    result is of such a device, with those that there are.
    """
    grouped = alike(documents)
    every = in_order(device for devices in grouped.values() for device in devices)
    if every and not matching(every, reference):
        raise InputError(
            f"no valid run of a user who waits is of a device that matches {reference[:100]!r}; there are: "
            f"{'; '.join(device.words for device in every)}",
            field="reference",
        )
    judge = Judge([each for devices in grouped.values() for group in devices.values() for each in group])
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for thing, devices in grouped.items():
        found = _of_one(thing, devices, reference, statistic, judge)
        if isinstance(found, str):
            notes.append(f"{thing.words}: {found}")
        else:
            rows += found
    return Speedups(rows, notes)


def matching(devices: Iterable[Device], reference: str) -> list[Device]:
    """Those of that kind or name; the one with exactly that name where there is one."""
    wanted = reference.strip().casefold()
    whole = [one for one in devices if wanted in (one.words.casefold(), one.name.casefold())]
    if whole:
        return whole
    return [one for one in devices if wanted == one.kind or (wanted and wanted in one.words.casefold())]


def _of_one(
    thing: Thing, devices: dict[Device, list[Candidate]], reference: str, statistic: str, judge: Judge
) -> list[dict[str, Any]] | str:
    """The rows of one model in one precision; why there are none."""
    fitting = matching(devices, reference)
    if not fitting:
        return f"no run on a device that matches {reference!r}; there are: {_listed(devices)}"
    if len(fitting) > 1:
        return f"{reference!r} is more than one device: {_listed(fitting)}; name one of them as the reference"
    if len(devices) < 2:
        return f"measured on {fitting[0].words} alone: nothing is faster or slower than it"
    base = fitting[0]
    word = FIGURES.named(statistic).word
    alone = [
        one
        for one in devices[base]
        if one_at_a_time(one.documents[0]) and one.mean(statistic) is not None and _throughput(one)
    ]
    if not alone:
        return f"no run of one user with one sample at a time on {base.words} has a {word}: there is no objective"
    quickest = min(alone, key=lambda one: (one.mean(statistic), one.key))
    bound_ms = quickest.mean(statistic)
    assert bound_ms is not None
    places = {device: _places(group, quickest, statistic, judge) for device, group in devices.items()}
    best = {device: _best(group, bound_ms) for device, group in places.items()}
    names = describe([one.candidate for one in best.values() if one is not None])
    rows = []
    for device in (base, *(each for each in devices if each != base)):
        own, against = best[device], best[base]
        assert against is not None  # the objective is the latency of one of its configurations
        row: dict[str, Any] = {
            "model": thing.model,
            "task": thing.task or None,
            "precision": thing.precision,
            "model_digest": thing.digest,
            "statistic": statistic,
            "reference": base.words,
            "bound_ms": bound_ms,
            "device": device.words,
            "device_kind": device.kind,
            "speedup": None,
            "ci95": None,
            THROUGHPUT: None,
            "latency_ms": None,
            "keeps_slo_probability": None,
            "configuration": None,
            "runs": None,
            "run": None,
            "reason": None,
        }
        if own is None:
            row["reason"] = _why(places[device], word)
        else:
            row |= {
                "speedup": own.throughput / against.throughput,
                "ci95": None if device == base else _interval(places[device], places[base], judge),
                THROUGHPUT: own.throughput,
                "latency_ms": own.latency_ms,
                "keeps_slo_probability": own.keeps,
                "configuration": names[own.candidate.key],
                "runs": own.candidate.runs,
                "run": own.candidate.documents[0]["run_id"],
            }
        rows.append(row)
    return rows


def _places(group: Sequence[Candidate], base: Candidate, statistic: str, judge: Judge) -> list[_Place]:
    objective = judge.estimate(base, statistic)
    places = []
    for one in group:
        latency, throughput = one.mean(statistic), _throughput(one)
        if latency is None or not throughput:
            continue
        # The objective is its own latency: no error of that counts against it.
        keeps = 1.0 if one is base else Change.between(judge.estimate(one, statistic), objective).rises
        places.append(_Place(one, throughput, latency, keeps))
    return places


def _throughput(one: Candidate) -> float:
    """Samples per second; 0 where a run lacks them."""
    return one.mean(THROUGHPUT) or 0.0


def _best(places: Sequence[_Place], bound_ms: float) -> _Place | None:
    """The largest throughput within the bound; of equal ones the quickest."""
    within = [one for one in places if one.latency_ms <= bound_ms]
    return max(within, key=lambda one: (one.throughput, -one.latency_ms, one.candidate.key), default=None)


def _interval(own: Sequence[_Place], base: Sequence[_Place], judge: Judge) -> list[float]:
    """The module says how."""

    def ratios(one: _Place, others: Iterable[_Place], end: int) -> float:
        estimate = judge.estimate(one.candidate, THROUGHPUT)
        return min(
            math.exp(Change.between(judge.estimate(other.candidate, THROUGHPUT), estimate).interval()[end])
            for other in others
        )

    sure, possible = [[one for one in base if one.sure], [one for one in base if one.possible]]
    low = max((ratios(one, possible, 0) for one in own if one.sure), default=0.0)
    return [low, max(ratios(one, sure, 1) for one in own if one.possible)]


def _why(places: Sequence[_Place], word: str) -> str:
    if not places:
        return f"none of its runs has both a {word} and a throughput"
    quickest = min(places, key=lambda one: one.latency_ms)
    return (
        f"none of its {len(places)} configuration(s) keeps the bound: the quickest has a {word} of "
        f"{quickest.latency_ms:.4g} ms"
    )


def _listed(devices: Iterable[Device]) -> str:
    return "; ".join(device.words for device in devices)
