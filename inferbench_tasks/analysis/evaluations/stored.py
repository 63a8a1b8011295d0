"""Evaluations of PerfDB by their runs: what was answered to each sample, all parts of one, and two in pairs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from inferbench_tasks.analysis.evaluations.beside import (
    KEYS,
    Parts,
    missing_in,
    parts_beside,
    whole_beside,
)
from inferbench_tasks.analysis.evaluations.listed import PART, evaluation_of
from inferbench_tasks.analysis.evaluations.pairs import compare
from inferbench_tasks.analysis.evaluations.together import part_of, together
from inferbench_tasks.analysis.evaluations.whole import Whole, whole_of
from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB


def answers_of(db: PerfDB, result: ResultDocument) -> pa.Table:
    """A row for each sample; InputError for a run that was not evaluated."""
    return stored_table(db, evaluation_of(result)["answers"])


def results_of(db: PerfDB, parts: Parts) -> list[ResultDocument]:
    """Of each part, also of those without answers."""
    return [db.get_result(each["run_id"], each["attempt"]) for each in parts.values()]


def whole_stored(db: PerfDB, parts: Parts, results: Sequence[ResultDocument]) -> Whole:
    """All parts of one evaluation as one; ``results``: see ``results_of``. InputError where one has no answers, or they
    are not of one."""
    _require_all(parts)
    return whole_of([(each, answers_of(db, each)) for each in results])


def together_stored(db: PerfDB, runs: list[str]) -> dict[str, Any]:
    """The parts of one evaluation, see ``together``. One run stands for all parts of its invocation; InputError."""
    ids = list(dict.fromkeys(db.resolve_run(run) for run in runs))
    results = [db.get_result(each) for each in ids]
    for result in results:
        part_of(result)  # said before any file of answers is read
    if len(results) == 1:
        parts = parts_beside(db, _keys_of(db, results[0]))
        if len(parts) > 1:
            _require_all(parts)
            results = results_of(db, parts)
    return together([(result, answers_of(db, result)) for result in results])


def compare_stored(db: PerfDB, runs: list[str], limit: int = 50, offset: int = 0) -> dict[str, Any]:
    """Two runs in pairs, see ``pairs.compare``; InputError unless there are two, both evaluated on the same samples.

    A part stands for all parts of its evaluation (``beside.whole_beside``). Where one of the two can't, or the wholes
    make no pairs, the same part of both makes pairs by itself, and the first sentence says why.
    """
    ids = list(dict.fromkeys(db.resolve_run(run) for run in runs))
    if len(ids) != 2:
        raise InputError(f"two different runs make pairs; these are {len(ids)}", field="RUN")
    first, second = results = [db.get_result(each) for each in ids]
    beside = [whole_beside(db, _keys_of(db, each)) for each in results]
    part = _same_part(first, second)
    if part is None or not any(beside):
        return _pairs_of_wholes(db, results, beside, limit, offset)
    if all(beside):
        try:
            return _pairs_of_wholes(db, results, beside, limit, offset)
        except InputError as error:
            why = error.message.rstrip(".")
    else:  # a whole has other samples than a part
        lone = next(each for each, parts in zip(results, beside, strict=True) if not parts)
        why = f"{lone.run_id} stands without its other parts"
    document = compare(first, second, (answers_of(db, first), answers_of(db, second)), limit, offset)
    alone = f"These are parts {part} alone, for there is no whole of both: {why}."
    return {**document, "sentences": [alone, *document["sentences"]]}


def _pairs_of_wholes(
    db: PerfDB, results: Sequence[ResultDocument], beside: Sequence[Parts], limit: int, offset: int
) -> dict[str, Any]:
    """Each side is a run, or all parts ``beside`` it. InputError where they make no pairs."""
    (first, one), (second, two) = map(partial(_with_answers, db), results, beside)
    if first.run_id == second.run_id:
        first, second = results
        raise InputError(
            f"{first.run_id} and {second.run_id} are parts of one evaluation: no pair", field="RUN"
        )
    return compare(first, second, (one, two), limit, offset)


def _with_answers(db: PerfDB, result: ResultDocument, parts: Parts) -> tuple[ResultDocument, pa.Table]:
    """A run with its answers, or all parts of what it is a part of as one."""
    if not parts:
        return result, answers_of(db, result)
    whole = whole_stored(db, parts, results_of(db, parts))
    return whole.result, whole.table


def _same_part(first: ResultDocument, second: ResultDocument) -> str | None:
    """Which part both are; None where they are not the same one of as many."""
    one, two = (value_at(each.model_dump(include={"provenance"}), PART) for each in (first, second))
    return str(one) if one is not None and one == two else None


def _require_all(parts: Parts) -> None:
    if missing := missing_in(parts):
        raise InputError(f"part {', '.join(missing)} has no answers", field="RUN")


def _keys_of(db: PerfDB, result: ResultDocument) -> dict[str, Any]:
    (document,) = db.find_raw({"run_id": result.run_id, "attempt": result.attempt}, fields=KEYS)
    return document
