"""Results of several devices that can be set side by side, and what keeps two apart.

They are of one model by its content (that of its source: each device may need a file of its own), asked for in one
precision,
asked by the same requests over the same protocol and the local network, and each had its device to itself. What is no
model (``perfdb.no_model``) stays by itself. Of a configuration's runs those of its newest server's version count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from inferbench_tasks.analysis.evaluations.listed import PART
from inferbench_tasks.analysis.recommend.candidates import Candidate
from inferbench_tasks.analysis.recommend.parts import configuration_in
from inferbench_tasks.analysis.recommend.recommender import of_newest_version
from inferbench_tasks.analysis.stated import needed
from inferbench_tasks.dotted import flatten, value_at
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.formats.stored_precision import called
from inferbench_tasks.perfdb import no_model
from inferbench_tasks.perfdb.asked_precision import PATHS as ASKED_PRECISION
from inferbench_tasks.perfdb.asked_precision import asked_precision
from inferbench_tasks.perfdb.held import held, identity
from inferbench_tasks.perfdb.offered import spoken
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import BY_RUN, NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.submission.schema import RequestsSpec

Document = dict[str, Any]
#: So many results are looked at, the newest first.
LOOKED_AT = 20_000
#: So many results' documents are kept: others are read again.
_MOST_KEPT = 5_000
#: Users who wait for their answers: what they get is what the device gives, and their latency is that of its work.
LOADS = ("closed_loop", "single_stream")
_REQUESTS, _PROCESSORS = "provenance.job.requests", "provenance.job.processors"
_PATHS = (
    "run_id", "attempt", "created_at", "verdict", "submission.digest", "model", "format", "backend", "device", "load",
    "summary.energy", "provenance.job.share", "provenance.job.serve", _REQUESTS, _PROCESSORS, PART,
    *ASKED_PRECISION, *no_model.PATHS,
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Thing:
    """What is compared. ``no_model``: what it is where it is of no model, else empty (``perfdb.no_model``); ``digest``:
    of the source model; ``asked_precision``: as ``convert.precision``; ``asked``: what each request carries and what is
    done with it, one text for equal requests.
    """

    model: str
    task: str
    no_model: str
    digest: str
    asked_precision: str
    protocol: str
    asked: str
    #: For people: what the weights are in, in other words where that is not what was asked for.
    precision: str = field(default="", compare=False)
    #: For people: another one has another digest, and not every result says which it was.
    framework: str = field(default="", compare=False)

    @property
    def words(self) -> str:
        """What people read, another text for each thing."""
        named = ", ".join(filter(None, (self.model, self.framework, self.precision)))
        parts = [f"{named} ({self.digest[:8]})", self.protocol, self.asked]
        if self.no_model:
            parts.append(self._task_in_words)
        return ", ".join(parts)

    @property
    def columns(self) -> dict[str, Any]:
        """What each row about it begins with."""
        return {
            "model": self.model,
            "framework": self.framework or None,
            "task": self._task_in_words or None,
            "precision": self.precision,
            "model_digest": self.digest,
            "protocol": self.protocol,
            "asked": self.asked,
        }

    @property
    def _task_in_words(self) -> str:
        return no_model.task_in_words(self.task, self.no_model)


@dataclass(frozen=True)
class Device:
    """Where it ran: ``cores`` are the CPU's logical cores that the job had."""

    kind: str
    name: str
    cores: float | None

    @property
    def words(self) -> str:
        """``Tesla T4, 4 cores``."""
        return self.name + (f", {self.cores:g} cores" if self.cores else "")


def stored(db: PerfDB, query: str | Iterable[str], figures: Sequence[str]) -> list[Document]:
    """The valid results that match and have users who wait, the newest first, with these figures."""
    wanted = {"verdict": "valid", "load.arrivals.kind": {"$in": list(LOADS)}}
    where = {"$and": [parse(query).filter, wanted]}
    raw = db.find_raw(where, NEWEST_FIRST, LOOKED_AT, fields=_fields(figures))
    return _with_jobs(db, map(to_plain, raw))


class Newest(NamedTuple):
    """``documents``, the newest first; ``shown`` of ``models`` they are of, and ``runs`` of ``of_runs`` results."""

    documents: list[Document]
    shown: int
    models: int
    runs: int
    of_runs: int


def newest(db: PerfDB, query: str | Iterable[str], figures: Sequence[str], most: int) -> Newest:
    """As ``stored``, of the models with the newest results: as many as have ``most`` of them, or the ``most`` newest of
    one. What was read once is known.
    """
    index = held(db)
    name, arrivals = index.values("model.name"), index.values("load.arrivals")
    rows = [row for row in index.rows(parse(query).filter) if (arrivals(row) or {}).get("kind") in LOADS]
    counts = Counter(map(name, rows))  # in the order of the newest
    sums = zip(counts, accumulate(counts.values()), strict=True)
    shown = {model for model, so_far in sums if so_far <= most} or set([*counts][:1])
    chosen = [row for row in rows if name(row) in shown][:most]
    known: dict[tuple[str, int], Document] = index.kept(("devices", *figures), _MOST_KEPT)
    if missing := [identity(row)[0] for row in chosen if identity(row) not in known]:
        fields = _fields(figures)
        raw = db.find_raw({"run_id": {"$in": missing}}, BY_RUN, fields=fields)
        for document in _with_jobs(db, map(to_plain, raw)):
            known[document["run_id"], document["attempt"]] = document
    documents = [known[identity(row)] for row in chosen if identity(row) in known]
    return Newest(documents, len(shown), len(counts), len(chosen), len(rows))


def _with_jobs(db: PerfDB, documents: Iterable[Document]) -> list[Document]:
    """The same; those of parts of an evaluation with the whole of their jobs, which tells what they are parts of."""
    found = list(documents)
    parts = {_identity_of(each): each for each in found if value_at(each, PART) is not None}
    if parts:
        where = {"run_id": {"$in": [run for run, _ in parts]}}
        for job in map(to_plain, db.find_raw(where, BY_RUN, fields=("run_id", "attempt", "provenance.job"))):
            if (document := parts.get(_identity_of(job))) is not None:
                document["provenance"]["job"] = job["provenance"]["job"]
    return found


def _identity_of(document: Document) -> tuple[str, int]:
    return document["run_id"], document["attempt"]


def _fields(figures: Sequence[str]) -> tuple[str, ...]:
    of_figures = (path for name in figures for path in needed(FIGURES.named(name)))
    return tuple(dict.fromkeys((*_PATHS, *of_figures)))


def thing_of(document: Document) -> Thing | None:
    """None of a result that can't stand beside others: it does not count, shared its device or had several, ran over an
    emulated network, had users who think, or nobody recorded which model it was.
    """
    arrivals = value_at(document, "load.arrivals") or {}
    model = document.get("model") or {}
    digest = model.get("source_digest") or model.get("digest")
    apart = (
        document.get("verdict") != "valid"
        or arrivals.get("kind") not in LOADS
        or (arrivals.get("think_time_ms") or 0) > 0
        or (value_at(document, "load.network") or "lan") != "lan"
        or value_at(document, "provenance.job.share")
        or (value_at(document, "provenance.job.serve.devices") or 1) > 1
        or not digest
        or not model.get("precision")
    )
    asked = asked_precision(document)
    if apart or asked is None:
        return None
    return Thing(
        str(model.get("name")),
        str(model.get("task") or ""),
        no_model.of_document(document),
        str(digest),
        asked,
        spoken(document.get("load") or {}) or "protocol not known",
        _asked(value_at(document, _REQUESTS), value_at(document, _PROCESSORS)),
        asked if (weights := called(model["precision"])) == asked else f"{weights} weights",
        str(model.get("framework") or ""),
    )


def _asked(requests: Any, processors: Any) -> str:
    """``dataset requests``, ``random requests (samples 8)``: all settings but the usual ones, so equal for equal."""
    if not requests:
        words = "requests not recorded"
    else:
        own = {name: value for name, value in requests.items() if name != "kind" and value is not None}
        usual = RequestsSpec.model_fields
        told = {
            name: value for name, value in own.items() if name not in usual or value != usual[name].default
        }
        kind = requests.get("kind", usual["kind"].default)
        words = f"{kind} requests" + (f" ({_settings(told)})" if told else "")
    return words + (f", processors {_settings(processors)}" if processors else "")


def _settings(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value, sort_keys=True, default=str).replace('"', "")
    flat = {path: each for path, each in sorted(flatten(value).items()) if each is not None}
    return ", ".join(f"{path} {_settings(each)}" for path, each in flat.items())


def device_of(document: Document) -> Device:
    """Where a result was measured."""
    device = document.get("device") or {}
    kind = str(device.get("kind"))
    return Device(kind, str(device.get("name") or kind), device.get("cores"))


def in_order(devices: Iterable[Device]) -> list[Device]:
    """Each once, CPUs first, by their names; results from before cores were stored have none."""
    return sorted(set(devices), key=lambda device: (device.kind, device.name, device.cores or 0))


def alike(documents: Iterable[Document]) -> dict[Thing, dict[Device, list[Candidate]]]:
    """Of each thing the configurations on each device, from results with the newest first."""
    runs: dict[Thing, dict[Device, dict[str, list[Any]]]] = {}
    for document in documents:
        if (thing := thing_of(document)) is None:
            continue
        place = device_of(document)
        key = configuration_in(document)
        runs.setdefault(thing, {}).setdefault(place, {}).setdefault(key, []).append(document)
    return {
        thing: {
            device: [Candidate(key, own) for key, own in _newest(by_key).items()]
            for device in in_order(devices)
            for by_key in [devices[device]]
        }
        for thing, devices in sorted(runs.items())
    }


def _newest(by_key: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return of_newest_version(by_key, lambda document: value_at(document, "backend.version"))[0]
