"""Evaluations of PerfDB as rows; the parts of one are one row, and none without all of them."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from inferbench_tasks.analysis.evaluations.beside import (
    KEYS,
    Parts,
    missing_in,
    of_how_many,
    parts_beside,
    whole_key,
)
from inferbench_tasks.analysis.evaluations.listed import HERE, PATHS, row
from inferbench_tasks.analysis.evaluations.stored import answers_of
from inferbench_tasks.analysis.evaluations.whole import verdict_of, whole_of
from inferbench_tasks.contracts.verdict import KINDS, split
from inferbench_tasks.datasets.base import generated_name
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError, PerfDBError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain

_ASKED = "provenance.job.evaluate.dataset"
#: So many results are looked through at a time.
_CHUNK = 100
#: What was made of the files of answers of all parts, by the ids of these, which never change.
_KEPT = 256
_made: OrderedDict[tuple[str, ...], dict[str, Any]] = OrderedDict()


@dataclass(frozen=True)
class _Alone:
    """A result that is its own row."""

    run_id: str
    attempt: int


def evaluations(
    db: PerfDB, query: str | Iterable[str] = "", dataset: str = "", limit: int = 50, offset: int = 0
) -> list[dict[str, Any]]:
    """A row for each result with the block ``evaluate`` that matches, the newest first, see ``listed.row``.

    The parts of one evaluation are one row, where its newest part stands: their measures made anew over all samples, or
    ``withheld`` with the part that has no answers. A query on the verdict asks the worst part's.

    ``dataset``: what was asked, by the name that submissions have for it (``words``, ``folder``) or the one in its
    results (``words (generated)``, the folder's own), whichever split, or with it (``pets, val``); the query's own
    ``dataset`` is what the model was trained for. InputError for a query that is none.
    """
    asked = parse(query).filter
    terms: list[dict[str, Any]] = [asked, {HERE: {"$exists": True}}]
    if dataset:
        shown = {f"{HERE}.dataset": {"$in": [dataset, generated_name(dataset)]}}
        with_split = {f"{HERE}.dataset": {"$regex": f"^{re.escape(dataset)}, [^,]+$"}}
        terms.append({"$or": [shown, with_split, {_ASKED: dataset}]})
    page = list(islice(_each(db, {"$and": terms}, asked), offset, offset + limit))
    alone = _stored(db, [each for each in page if isinstance(each, _Alone)])
    return [row(alone[each]) if isinstance(each, _Alone) else _whole_row(db, each) for each in page]


def _stored(db: PerfDB, wanted: Sequence[_Alone]) -> dict[_Alone, dict[str, Any]]:
    found = db.find_raw({"run_id": {"$in": [each.run_id for each in wanted]}}, NEWEST_FIRST, fields=PATHS)
    return {_Alone(each["run_id"], each["attempt"]): to_plain(each) for each in found}


def _each(db: PerfDB, where: Mapping[str, Any], asked: Mapping[str, Any]) -> Iterator[_Alone | Parts]:
    """Each result that matches, the newest first, and the parts of each evaluation once."""
    seen: set[str] = set()
    for document in _documents(db, where):
        key = whole_key(document)
        if key in seen:
            continue
        parts = parts_beside(db, document)
        if key is None or len(parts) < 2:  # of a part alone nobody knows whether the others were asked for
            yield _Alone(document["run_id"], document["attempt"])
            continue
        seen.add(key)
        if _matches(db, parts, asked):
            yield parts


def _documents(db: PerfDB, where: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    skip = 0
    while chunk := db.find_raw(where, NEWEST_FIRST, _CHUNK, skip, KEYS):
        yield from chunk
        skip += len(chunk)
        if len(chunk) < _CHUNK:
            return


def _matches(db: PerfDB, parts: Parts, asked: Mapping[str, Any]) -> bool:
    """Of a query on verdicts: whether the worst part's is what is asked for, which is the whole's."""
    if not _on_verdicts(asked):
        return True
    order = {str(kind): at for at, kind in enumerate(KINDS)}
    worst = max(parts.values(), key=lambda each: order[split(each["verdict"])[0]])
    this = {"run_id": worst["run_id"], "attempt": worst["attempt"]}
    return db.count_results({"$and": [dict(asked), this]}) > 0


def _on_verdicts(asked: Any) -> bool:
    if isinstance(asked, Mapping):
        return "verdict" in asked or any(_on_verdicts(each) for each in asked.values())
    return isinstance(asked, list) and any(_on_verdicts(each) for each in asked)


def _whole_row(db: PerfDB, parts: Parts) -> dict[str, Any]:
    """One row for all of them: as of one run, or without measures and with the reason."""
    results = [db.get_result(each["run_id"], each["attempt"]) for each in parts.values()]
    answered = [result for result in results if HERE.rpartition(".")[2] in result.extensions]
    try:
        if missing := missing_in(parts):
            raise InputError(f"part {', '.join(missing)} has no answers")
        evaluation = _evaluation_of(db, answered)
    except (InputError, PerfDBError) as error:
        evaluation = _withheld(answered, f"no figure of all: {error}")
    document = answered[0].model_dump()
    document["created_at"] = max(result.created_at for result in results)
    document["verdict"] = str(verdict_of(results))
    devices = dict.fromkeys(name for result in answered if (name := result.device.name))
    document["device"]["name"] = ", ".join(devices) or None
    document["extensions"]["evaluation"] = {**evaluation, "parts": of_how_many(parts)}
    return row(document)


def _withheld(answered: Sequence[ResultDocument], why: str) -> dict[str, Any]:
    """What is known of all without a figure of all: which data, how many samples have answers."""
    first = answered[0].extensions["evaluation"]
    samples = [value_at(result.extensions, "evaluation.samples") or 0 for result in answered]
    known = {name: first[name] for name in ("dataset", "data", "scenario") if name in first}
    return {**known, "samples": sum(samples), "under_load": {"withheld": why}}


def _evaluation_of(db: PerfDB, results: Sequence[ResultDocument]) -> dict[str, Any]:
    """The evaluation of all parts together; InputError where they are not of one."""
    key = tuple(str(value_at(result.extensions, "evaluation.answers.id")) for result in results)
    if key not in _made:
        whole = whole_of([(result, answers_of(db, result)) for result in results])
        _made[key] = whole.result.extensions["evaluation"]
        while len(_made) > _KEPT:
            _made.popitem(last=False)
    return _made[key]
