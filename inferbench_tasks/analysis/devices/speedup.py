"""Figure 7(c) of the InferBench paper: how much more each device serves than a reference within its latency.

The objective is the latency of one user who asks the reference device one sample and waits, at the quickest of its
configurations: L. Of each device, the reference too, the configuration with the largest throughput among those whose
latency is at most L counts: speed-up = its samples/s / the reference's.

Without a named reference each model has one of its own: the first CPU that was asked so, else the first such device.
A device that was never asked one sample at a time may keep L where none of its configurations does: that is not
measured, and its row says so.

How sure it is that a configuration keeps L, and what follows for the interval of a speed-up: ``places``. A device that
keeps L only perhaps has no speed-up but an interval from 0, with the probability.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.analysis.devices.alike import Device, Document, Thing, alike, in_order, stored
from inferbench_tasks.analysis.devices.places import (
    THROUGHPUT,
    Place,
    best_of,
    interval,
    places_of,
    possibly_best,
    throughput_of,
)
from inferbench_tasks.analysis.recommend.candidates import Candidate, describe
from inferbench_tasks.analysis.recommend.judge import Judge
from inferbench_tasks.analysis.recommend.moved import why_moved
from inferbench_tasks.analysis.recommend.versions import other_version
from inferbench_tasks.analysis.systems.found import one_at_a_time
from inferbench_tasks.errors import InputError
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.store import PerfDB

#: By which latency the objective can be.
STATISTICS = ("mean_ms", "p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms")
USUAL_STATISTIC, USUAL_REFERENCE = "p99_ms", "cpu"
#: A part of a reference that tells the number of cores.
_CORES = re.compile(r"(\d+(?:\.\d+)?) cores?")
#: Column -> what it is, for people.
MEANINGS = {
    "speedup": "samples/s of the device over those of the reference, each at the best of its configurations whose "
    "latency is at most bound_ms",
    "ci95": "its 95% interval with the spread from run to run, widened for the choice of the best of several "
    "configurations; it is wider still where a configuration keeps the bound only perhaps, and begins at 0 "
    "without a speed-up where none is measured within it but one possibly is",
    "bound_ms": "the reference's latency, one user with one sample at a time: the objective for all",
    "keeps_slo_probability": "that the device's configuration really keeps the bound",
    "configuration": "the device's best one within the bound",
    "asked": "what each request carries, over the protocol beside it: only equal requests are compared",
    "other_version": "that the device's configuration and the reference's were served by two versions of one server",
    "asked_alone": "whether the device was asked one sample at a time; if not, that none of its configurations keeps "
    "the bound says nothing of the device",
}


@dataclass(frozen=True)
class Speedups:
    """``rows``: one for each model, precision and device, the reference first; ``notes``: what is left out, and why;
    ``left_out``: the same by the reason, which many may share.
    """

    rows: list[dict[str, Any]]
    notes: list[str] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)


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
    reference: str | None = USUAL_REFERENCE,
    statistic: str = USUAL_STATISTIC,
) -> Speedups:
    """Of results as plain nested mappings, the newest first.

    ``reference``: ``cpu`` or ``gpu``, or part of a device's name (``EPYC``; ``EPYC, 2 cores``); None: each model's own
    (``own_reference``). InputError where no result is of such a device, with those that there are.
    """
    grouped = alike(documents)
    every = in_order(device for devices in grouped.values() for device in devices)
    if every and reference is not None and not matching(every, reference):
        raise InputError(
            f"no valid run of a user who waits is of a device that matches {reference[:100]!r}; there are: "
            f"{'; '.join(device.words for device in every)}",
            field="reference",
        )
    judge = Judge([each for devices in grouped.values() for group in devices.values() for each in group])
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    left_out: dict[str, list[str]] = {}
    for thing, devices in grouped.items():
        found = _of_one(thing, devices, reference, statistic, judge)
        if isinstance(found, str):
            notes.append(f"{thing.words}: {found}")
            left_out.setdefault(found, []).append(thing.words)
        else:
            rows += found
    return Speedups(rows, notes, left_out)


def own_reference(devices: Mapping[Device, Sequence[Candidate]], statistic: str) -> Device | None:
    """The first CPU that has an objective, else the first such device; None without any."""
    return next((device for device in in_order(devices) if _objective(devices[device], statistic)), None)


def _objective(group: Sequence[Candidate], statistic: str) -> Candidate | None:
    """The quickest of those that were asked one sample at a time and have both figures: its latency is the bound."""
    alone = [one for one in group if _alone(one) and one.mean(statistic) is not None and throughput_of(one)]
    return min(alone, key=lambda one: (one.mean(statistic), one.key), default=None)


def matching(devices: Iterable[Device], reference: str) -> list[Device]:
    """Those of that kind, or whose name has each part between the commas; ``2 cores`` is their number and no part of
    ``12 cores``. The one with exactly that name where there is one.
    """
    every = list(devices)
    wanted = reference.strip().casefold()
    for exact in ("words", "name"):
        if whole := [one for one in every if wanted == getattr(one, exact).casefold()]:
            return whole
    parts = [part.strip() for part in wanted.split(",") if part.strip()]
    return [one for one in every if wanted == one.kind or (parts and all(_has(one, part) for part in parts))]


def _has(device: Device, part: str) -> bool:
    if cores := _CORES.fullmatch(part):
        return device.cores == float(cores[1])
    return part in device.name.casefold()


def _base_of(
    devices: Mapping[Device, Sequence[Candidate]], reference: str | None, statistic: str
) -> Device | str:
    """The reference among a model's devices; why there is none."""
    if reference is None:
        base = own_reference(devices, statistic)
        if base is None:
            word = FIGURES.named(statistic).word
            return (
                f"no run of one user with one sample at a time on any of {_listed(devices)} has a {word}: there is "
                "no objective"
            )
    else:
        fitting = matching(devices, reference)
        if not fitting:
            return f"no run on a device that matches {reference!r}; there are: {_listed(devices)}"
        if len(fitting) > 1:
            return f"{reference!r} is more than one device: {_listed(fitting)}; name one of them as the reference"
        base = fitting[0]
    return (
        base if len(devices) > 1 else f"measured on {base.words} alone: nothing is faster or slower than it"
    )


def _of_one(
    thing: Thing, devices: dict[Device, list[Candidate]], reference: str | None, statistic: str, judge: Judge
) -> list[dict[str, Any]] | str:
    """The rows of one model in one precision; why there are none."""
    base = _base_of(devices, reference, statistic)
    if isinstance(base, str):
        return base
    word = FIGURES.named(statistic).word
    quickest = _objective(devices[base], statistic)
    if quickest is None:
        return f"no run of one user with one sample at a time on {base.words} has a {word}: there is no objective"
    bound_ms = quickest.mean(statistic)
    assert bound_ms is not None
    places = {device: places_of(group, quickest, statistic, judge) for device, group in devices.items()}
    best = {device: best_of(group, bound_ms) for device, group in places.items()}
    rows = []
    for device in (base, *(each for each in devices if each != base)):
        own, against = best[device], best[base]
        assert against is not None  # the objective is the latency of one of its configurations
        row: dict[str, Any] = {
            **thing.columns,
            "statistic": statistic,
            "reference": base.words,
            "bound_ms": bound_ms,
            "device": device.words,
            "device_kind": device.kind,
            "asked_alone": any(_alone(place.candidate) for place in places[device]),
            "speedup": None,
            "ci95": None,
            THROUGHPUT: None,
            "latency_ms": None,
            "keeps_slo_probability": None,
            "configuration": None,
            "runs": None,
            "run": None,
            "other_version": None,
            "reason": None,
        }
        if own is None:
            row |= _perhaps(places[device], places[base], judge, bound_ms)
            row["reason"] = row["reason"] or _why(places[device], word, row["asked_alone"])
        else:
            row |= {
                "speedup": own.throughput / against.throughput,
                "ci95": None if device == base else interval(places[device], places[base], judge),
                THROUGHPUT: own.throughput,
                "latency_ms": own.latency_ms,
                "keeps_slo_probability": own.keeps,
                "configuration": describe([own.candidate])[own.candidate.key],
                "runs": own.candidate.runs,
                "run": own.candidate.documents[0]["run_id"],
                "other_version": other_version(own.candidate, against.candidate),
                "reason": why_moved(own.candidate, THROUGHPUT),
            }
        rows.append(row)
    return rows


def _perhaps(own: Sequence[Place], base: Sequence[Place], judge: Judge, bound_ms: float) -> dict[str, Any]:
    """Of a device that was measured beyond the bound, but possibly keeps it: no figure, and how large it can be."""
    one = possibly_best(own)
    if one is None:
        return {"latency_ms": min((place.latency_ms for place in own), default=None)}
    return {
        "ci95": [0.0, interval(own, base, judge)[1]],
        "keeps_slo_probability": one.keeps,
        "latency_ms": one.latency_ms,
        THROUGHPUT: one.throughput,
        "reason": f"possibly: {one.latency_ms:.4g} ms keep the bound of {bound_ms:.4g} ms with a probability of "
        f"{one.keeps:.0%}",
    }


def _why(places: Sequence[Place], word: str, asked_alone: bool) -> str:
    if not places:
        return f"none of its runs has both a {word} and a throughput"
    quickest = min(places, key=lambda one: one.latency_ms)
    none = (
        f"none of its {len(places)} configuration(s) keeps the bound: the quickest has a {word} of "
        f"{quickest.latency_ms:.4g} ms"
    )
    return (
        none if asked_alone else f"never asked one sample at a time, so not measured within the bound; {none}"
    )


def _alone(one: Candidate) -> bool:
    return one_at_a_time(one.documents[0])


def _listed(devices: Iterable[Device]) -> str:
    return "; ".join(device.words for device in devices)
