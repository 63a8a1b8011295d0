"""Which runs a row of the model x system table is made of: the newest valid one of each kind."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from inferbench_tasks.analysis import model_names
from inferbench_tasks.analysis.evaluations.listed import PART, TRAINING
from inferbench_tasks.analysis.price_ground import DATE_PATH
from inferbench_tasks.analysis.stated import needed
from inferbench_tasks.contracts.drawn import settled
from inferbench_tasks.dotted import value_at
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb import judged_on, no_model
from inferbench_tasks.perfdb.asked_precision import PATHS as ASKED_PRECISION
from inferbench_tasks.perfdb.asked_precision import asked_precision
from inferbench_tasks.perfdb.held import Held, Row, held, identity
from inferbench_tasks.perfdb.held_columns import Matching
from inferbench_tasks.perfdb.offered import NO_LOAD, offered, spoken
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain

Document = dict[str, Any]
#: What makes a row: the model as it is served, the stack, the system, and of a language model what it is asked: a
#: request of a thousand tokens is another than one of ten. Paths in a result.
ROW = {
    "model": "model.name",
    "model_version": "model.version",
    "precision": "model.precision",
    "format": "format",
    "backend": "backend.kind",
    "version": "backend.version",
    "threads": "backend.settings.threads",
    "instances": "backend.settings.instances",
    "device": "device.name",
    "cores": "device.cores",
    "protocol": "load.protocol",
    "prompts": "load.arrivals.prompts",
}
#: What each request carries, and what is done with it beside the model.
_SIZES, _PROCESSORS = "provenance.job.requests.sizes", "provenance.job.processors"
#: Settings of a backend that ``ROW`` or the rest of a row says already, or that say nothing of how it serves.
_SAID = ("threads", "instances", "device", "engine", "env", "label")
#: Loads that ask for as much as a server gives.
SATURATING = ("closed_loop", "offline")
#: So many results' documents are kept: others are read again.
_MOST_KEPT = 6_000
_FIGURES = ("p90_ms", "p99_ms", "throughput_samples_per_s", "rss_bytes", "cold_start_ms", "joule_per_sample",
            "cost_usd_per_1k_samples")  # fmt: skip
_PATHS = tuple(dict.fromkeys((
    "run_id", "attempt", "created_at", "device.kind", "backend.settings", "model.digest", "model.source_digest",
    "model.batch_size", "model.task", "load", "summary.energy", f"summary.{DATE_PATH}", _SIZES, _PROCESSORS,
    "summary.e2e_latency_ms", "summary.quality", "extensions.evaluation.dataset", *ROW.values(), *judged_on.PATHS,
    PART, TRAINING,
    *ASKED_PRECISION, *no_model.PATHS, *model_names.PATHS,
    *(path for name in _FIGURES for path in needed(FIGURES[name])),
)))  # fmt: skip


@dataclass
class Found:
    """Of one row. ``newest``: of those with a load. ``online``: one request of one sample at a time; ``saturated``: the
    newest run of each batch size and load, in ``offered``'s words, that asks for all the server gives; ``judged``: the
    newest with measures of all samples, not of a part of them; of samples that models are usually trained on only where
    there are no others.
    """

    about: dict[str, Any]
    online: Document | None = None
    saturated: dict[tuple[int, str], Document] = field(default_factory=dict)
    judged: Document | None = None
    newest: Document | None = None

    @property
    def batches(self) -> dict[int, Document]:
        """Batch size -> of its loads the run with the largest throughput."""
        best: dict[int, Document] = {}
        for (size, _), document in self.saturated.items():
            if size not in best or throughput(document) > throughput(best[size]):
                best[size] = document
        return best

    @property
    def best(self) -> Document | None:
        """The batch size with the largest throughput."""
        return max(self.batches.values(), key=throughput, default=None)


@dataclass(frozen=True)
class Part:
    """One result and what follows from it alone: which ``row`` it is of, and what it can be there.

    ``saturating``: the batch size and load where it asks for all that the server gives, and has a throughput.
    """

    document: Document
    local: bool
    about: dict[str, Any]
    row: tuple[Any, ...]
    loaded: bool
    judged: bool
    online: bool
    saturating: tuple[int, str] | None


def found_among(db: PerfDB, models: Sequence[str] = ()) -> list[Row]:
    """The results that rows are made of, of these models or all, the newest first."""
    index = held(db)
    return _newest(index, index.rows({ROW["model"]: {"$in": list(models)}} if models else {}))


def put_together(db: PerfDB, results: Sequence[Row]) -> list[Found]:
    """A row for each model, stack and system that has a result over the local network, in their order."""
    return _put_together(_parts(db, held(db), results))


def find(db: PerfDB, models: Sequence[str] = ()) -> list[Found]:
    """``put_together`` of all that is found among the valid results."""
    return put_together(db, found_among(db, models))


def newest_models(db: PerfDB, most: int) -> tuple[list[str], int]:
    """The models with the newest valid results, as many as have ``most`` configurations in all, and one at least; and
    how many models there are.
    """
    index = held(db)
    name = index.values(ROW["model"])
    counts = Counter(str(name(row)) for row in index.rows().newest_of_each())  # in the order of the newest
    sums = accumulate(counts.values())
    return [model for model, so_far in zip(counts, sums, strict=True) if so_far <= most] or [*counts][
        :1
    ], len(counts)


def _newest(index: Held, rows: Matching) -> list[Row]:
    """Of each configuration the newest, the newest with a throughput, and the newest with each measure: older ones were
    asked the same, and are in no row.
    """
    figures = [
        FIGURES["throughput_samples_per_s"],
        *(each for each in FIGURES.values() if each.evaluated and each.held),
    ]
    kinds = [rows, *(rows.only(index.present(figure.field_path, rows)) for figure in figures)]
    found = {identity(row): row for kind in kinds for row in kind.newest_of_each()}
    created = index.values("created_at")
    by_name = sorted(found.values(), key=identity)  # two sorts, for one goes down and the other up
    return sorted(by_name, key=created, reverse=True)


def _parts(db: PerfDB, index: Held, rows: Sequence[Row]) -> list[Part]:
    """What these results say, in their order; what was read once is known."""
    known: dict[tuple[str, int], Part] = index.kept("systems", _MOST_KEPT)
    if missing := [identity(row)[0] for row in rows if identity(row) not in known]:
        for document in map(to_plain, db.find_raw({"run_id": {"$in": missing}}, BY_RUN, fields=_PATHS)):
            known[document["run_id"], document["attempt"]] = _part(document)
    return [known[identity(row)] for row in rows if identity(row) in known]


def sorted_in(documents: Iterable[Document]) -> list[Found]:
    """The rows of results as plain nested mappings, the newest first."""
    return _put_together(map(_part, documents))


def _part(document: Document) -> Part:
    about = {name: value_at(document, path) for name, path in ROW.items()}
    about["protocol"] = spoken(document.get("load") or {})
    about["device"] = about["device"] or value_at(document, "device.kind")
    about["task"] = no_model.task_in_words(value_at(document, "model.task"), no_model.of_document(document))
    about |= {"model_digest": _content(document), "settings": _other_settings(document)}
    about["inputs"] = _inputs(document)
    of_load = None
    if saturated(document) and throughput(document):
        of_load = int(value_at(document, "load.batch_size") or 1), offered(document.get("load") or {})
    return Part(
        document,
        local=(value_at(document, "load.network") or "lan") == "lan",
        about=about | {"named": model_names.of_document(document)},
        row=(*(about | {"precision": asked_precision(document)}).values(), _all_settings(document)),
        # Without a load nobody watched what disturbed it.
        loaded=value_at(document, "load.arrivals.kind") != NO_LOAD,
        judged=bool(value_at(document, "summary.quality")) and value_at(document, PART) is None,
        online=one_at_a_time(document),
        saturating=of_load,
    )


def _put_together(parts: Iterable[Part]) -> list[Found]:
    rows: dict[tuple[Any, ...], Found] = {}
    for part in parts:
        if not part.local:
            continue
        row = rows.setdefault(part.row, Found(part.about))
        if part.loaded:
            row.newest = row.newest or part.document
        if part.judged and (
            row.judged is None or (_trained_on(row.judged) and not _trained_on(part.document))
        ):
            row.judged = part.document
        if part.online:
            row.online = row.online or part.document
        if part.saturating:
            row.saturated.setdefault(part.saturating, part.document)
    return [rows[key] for key in sorted(rows, key=lambda key: tuple(str(part or "") for part in key))]


def _trained_on(document: Document) -> bool:
    return bool(value_at(document, TRAINING))


def _content(document: Document) -> str | None:
    """The digest of the model as it was served; where each batch size has a file of its own, that of its source."""
    model = document.get("model") or {}
    served: str | None = model.get("digest")
    return (model.get("source_digest") or served) if model.get("batch_size") else served


def _all_settings(document: Document) -> str:
    """One text for equal settings of a backend, but for its label and what a start merely drew."""
    settings = settled(value_at(document, "backend.settings") or {})
    return _text({name: value for name, value in settings.items() if name != "label"})


def _other_settings(document: Document) -> str:
    """What people are shown of them: those that are given and stand in no other column."""
    settings = settled(value_at(document, "backend.settings") or {})
    return ", ".join(
        f"{name}={_text(value)}" for name, value in sorted(settings.items()) if value and name not in _SAID
    )


def _inputs(document: Document) -> str | None:
    """Sizes of the model's free inputs and what processors do, where they are given: text of 512 tokens is other work
    than of 16, and so is a picture that the server has to decode."""
    parts = [
        f"{name} {_text(value).replace(chr(34), '')}"
        for name, path in (("sizes", _SIZES), ("processors", _PROCESSORS))
        if (value := value_at(document, path))
    ]
    return ", ".join(parts) or None


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def one_at_a_time(document: Document) -> bool:
    """Whether one user asks one sample and waits: MLModelScope's online scenario."""
    arrivals = value_at(document, "load.arrivals") or {}
    alone = arrivals.get("kind") == "single_stream" or (
        arrivals.get("kind") == "closed_loop" and arrivals.get("concurrency") == 1
    )
    return alone and (value_at(document, "load.batch_size") or 1) == 1


def saturated(document: Document) -> bool:
    """Whether the load asks for all that the server gives: one user with one sample, or users who think, do not."""
    arrivals = value_at(document, "load.arrivals") or {}
    thinks = (arrivals.get("think_time_ms") or 0) > 0
    return arrivals.get("kind") in SATURATING and not thinks and not one_at_a_time(document)


def throughput(document: Document) -> float:
    """Samples per second, 0 where it is not known."""
    value = FIGURES["throughput_samples_per_s"].stored(document.get("summary") or {})
    return float(value or 0.0)
