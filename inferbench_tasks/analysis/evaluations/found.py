"""Evaluations of PerfDB as rows; the parts of one are one row, and none without all of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import pyarrow as pa

from inferbench_tasks.analysis.evaluations.asked import Asked
from inferbench_tasks.analysis.evaluations.beside import (
    ANSWERS,
    KEYS,
    Parts,
    of_how_many,
    part_in,
    whole_beside,
    whole_key,
)
from inferbench_tasks.analysis.evaluations.kept import Kept
from inferbench_tasks.analysis.evaluations.listed import HERE, PATHS, evaluation_of, row
from inferbench_tasks.analysis.evaluations.stored import results_of, whole_stored
from inferbench_tasks.analysis.evaluations.whole import verdict_of
from inferbench_tasks.datasets.base import generated_name
from inferbench_tasks.dotted import set_at, value_at
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain

log = logging.getLogger(__name__)
_ASKED = "provenance.job.evaluate.dataset"
#: So many results are looked through at a time.
_CHUNK = 100
#: What was made of all parts, by what tells these from all others, which never changes.
_MADE: Kept[tuple[Any, ...], dict[str, Any]] = Kept(1000)
#: What one result that holds something odd raises: its row says so, and the others are shown.
_ODD = (pa.ArrowException, LookupError, TypeError, ValueError, AttributeError)


@dataclass(frozen=True)
class _Alone:
    """A result that is its own row."""

    run_id: str
    attempt: int


class _Together:
    """The parts of one evaluation, which are one row."""

    def __init__(self, db: PerfDB, parts: Parts) -> None:
        self._db, self.parts = db, parts

    @cached_property
    def document(self) -> dict[str, Any]:
        """All of them as of one run, as far as rows and queries ask for it: read once, whatever comes of it."""
        return _whole(self._db, self.parts)


def evaluations(
    db: PerfDB, query: str | Iterable[str] = "", dataset: str = "", limit: int = 50, offset: int = 0
) -> list[dict[str, Any]]:
    """A row for each result with the block ``evaluate`` that matches, the newest first, see ``listed.row``.

    The parts of one evaluation are one row (``beside.whole_beside``), where its newest part that matches stands: of
    each part the last attempt, their measures made anew over all samples, or ``withheld`` with the part that has no
    answers. What a query asks of it: ``asked.Asked``.

    ``dataset``: what was asked, by the name that submissions have for it (``words``, ``folder``) or the one in its
    results (``words (generated)``, the folder's own), whichever split, or with it (``pets, val``); the query's own
    ``dataset`` is what the model was trained for. InputError for a query that is none.
    """
    asked = Asked.of(parse(query).filter)
    terms: list[dict[str, Any]] = [asked.candidates, {HERE: {"$exists": True}}]
    if dataset:
        shown = {f"{HERE}.dataset": {"$in": [dataset, generated_name(dataset)]}}
        with_split = {f"{HERE}.dataset": {"$regex": f"^{re.escape(dataset)}, [^,]+$"}}
        terms.append({"$or": [shown, with_split, {_ASKED: dataset}]})
    page = list(islice(_each(db, {"$and": terms}, asked), offset, offset + limit))
    alone = _stored(db, [each for each in page if isinstance(each, _Alone)])
    return [row(alone[each] if isinstance(each, _Alone) else each.document) for each in page]


def _stored(db: PerfDB, wanted: Sequence[_Alone]) -> dict[_Alone, dict[str, Any]]:
    found = db.find_raw({"run_id": {"$in": [each.run_id for each in wanted]}}, NEWEST_FIRST, fields=PATHS)
    return {_Alone(each["run_id"], each["attempt"]): to_plain(each) for each in found}


def _each(db: PerfDB, where: Mapping[str, Any], asked: Asked) -> Iterator[_Alone | _Together]:
    """Each result that matches, the newest first, and the parts of each evaluation once."""
    seen: set[str] = set()
    found: dict[str, Parts] = {}
    for document in _documents(db, where):
        key = whole_key(document)
        if key in seen:
            continue
        if key is not None and key not in found:
            found[key] = _as_one(db, document)
        parts: Parts = found[key] if key is not None else {}
        if not parts:
            if _matches_alone(db, document, asked):
                yield _Alone(document["run_id"], document["attempt"])
        elif key is not None and _is_one_of(parts, document):
            seen.add(key)
            del found[key]
            whole = _Together(db, parts)
            if asked.verdict_holds(parts) and (not asked.of_row or asked.row_holds(whole.document)):
                yield whole


def _documents(db: PerfDB, where: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    skip = 0
    while chunk := db.find_raw(where, NEWEST_FIRST, _CHUNK, skip, KEYS):
        yield from chunk
        skip += len(chunk)
        if len(chunk) < _CHUNK:
            return


def _as_one(db: PerfDB, document: Mapping[str, Any]) -> Parts:
    """{} where each part is a row of its own: also where the last attempts at all of them have no answers."""
    parts = whole_beside(db, document)
    return parts if any(value_at(each, HERE) is not None for each in parts.values()) else {}


def _is_one_of(parts: Parts, document: Mapping[str, Any]) -> bool:
    """Not where it is an earlier attempt at one of them."""
    part = part_in(document)
    last = parts.get(part.number) if part is not None else None
    return last is not None and all(last[name] == document[name] for name in ("run_id", "attempt"))


def _matches_alone(db: PerfDB, document: Mapping[str, Any], asked: Asked) -> bool:
    """Of a part, which may have been found for a whole: whether it matches by itself."""
    if part_in(document) is None or not asked.tells_wholes_apart:
        return True
    this = {"run_id": document["run_id"], "attempt": document["attempt"]}
    return db.count_results({"$and": [asked.filter, this]}) > 0


def _whole(db: PerfDB, parts: Parts) -> dict[str, Any]:
    """All of them as of one run, as far as rows and queries ask for it; or without measures and with the reason."""
    key = tuple(
        (*(each[name] for name in ("run_id", "attempt", "created_at", "verdict")), value_at(each, ANSWERS))
        for each in parts.values()
    )
    if (known := _MADE.get(key)) is not None:
        return known
    results = results_of(db, parts)
    answered = [result for result in results if HERE.rpartition(".")[2] in result.extensions]
    try:
        evaluation = _evaluation_of(db, parts, results)
    except PerfDBError as error:  # the next time it may be there
        return _document(parts, results, answered, _withheld(answered, f"no figure of all: {error}"))
    except InputError as error:
        evaluation = _withheld(answered, f"no figure of all: {error.message}")
    except _ODD as error:
        log.warning("no whole of %s and its other parts", answered[0].run_id, exc_info=True)
        why = f"no figure of all: what is stored of a part can't be used ({type(error).__name__}: {error})"
        evaluation = _withheld(answered, why)
    document = _document(parts, results, answered, evaluation)
    _MADE.put(key, document)
    return document


def _document(
    parts: Parts,
    results: Sequence[ResultDocument],
    answered: Sequence[ResultDocument],
    evaluation: Mapping[str, Any],
) -> dict[str, Any]:
    """As of one result: what is in a row, with the figures of all that are made anew, and no others."""
    first = answered[0].model_dump()
    document: dict[str, Any] = {}
    for path in PATHS:
        set_at(document, path, value_at(first, path))
    document["created_at"] = max(result.created_at for result in results)
    document["verdict"] = str(verdict_of(results))
    devices = [result.device for result in answered]
    document["device"] = {
        "kind": _joined(device.kind for device in devices),
        "name": _joined(device.name for device in devices),
    }
    document["summary"] = {"quality": evaluation["under_load"].get("measures", {})}
    document["extensions"] = {"evaluation": {**evaluation, "parts": of_how_many(parts)}}
    return document


def _joined(names: Iterable[str | None]) -> str | None:
    """Each once."""
    return ", ".join(dict.fromkeys(name for name in names if name)) or None


def _withheld(answered: Sequence[ResultDocument], why: str) -> dict[str, Any]:
    """What is known of all without a figure of all: which data, how many samples have answers."""
    first = answered[0].extensions["evaluation"]
    samples = [value_at(result.extensions, "evaluation.samples") or 0 for result in answered]
    known = {name: first[name] for name in ("dataset", "data", "scenario") if name in first}
    return {**known, "samples": sum(samples), "under_load": {"withheld": why}}


def _evaluation_of(db: PerfDB, parts: Parts, results: Sequence[ResultDocument]) -> dict[str, Any]:
    """The evaluation of all parts together, but for its confusions, which may be a million counts; InputError where
    one has no answers, or they are not of one."""
    whole = whole_stored(db, parts, results)
    return {name: found for name, found in evaluation_of(whole.result).items() if name != "confusion"}
