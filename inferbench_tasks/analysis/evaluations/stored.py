"""Evaluations of PerfDB by their runs: what was answered to each sample, and two of them in pairs."""

from __future__ import annotations

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
from inferbench_tasks.analysis.evaluations.whole import whole_of
from inferbench_tasks.analysis.report.runs import stored_table
from inferbench_tasks.dotted import value_at
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.store import PerfDB


def answers_of(db: PerfDB, result: ResultDocument) -> pa.Table:
    """A row for each sample; InputError for a run that was not evaluated."""
    return stored_table(db, evaluation_of(result)["answers"])


def together_stored(db: PerfDB, runs: list[str]) -> dict[str, Any]:
    """The parts of one evaluation, see ``together``. One run stands for all parts of its invocation; InputError."""
    ids = list(dict.fromkeys(db.resolve_run(run) for run in runs))
    if len(ids) == 1:
        result = db.get_result(ids[0])
        part_of(result)
        ids = _runs_of(_beside(db, result))
    results = [db.get_result(each) for each in ids]
    for result in results:
        part_of(result)  # said before any file of answers is read
    return together([(result, answers_of(db, result)) for result in results])


def _beside(db: PerfDB, result: ResultDocument) -> Parts:
    """The parts of what it is a part of; {} where it asked all."""
    return parts_beside(db, _keys_of(db, result))


def _keys_of(db: PerfDB, result: ResultDocument) -> dict[str, Any]:
    (document,) = db.find_raw({"run_id": result.run_id, "attempt": result.attempt}, fields=KEYS)
    return document


def _runs_of(parts: Parts) -> list[str]:
    """InputError where one of several has no answers."""
    if len(parts) > 1 and (missing := missing_in(parts)):
        raise InputError(f"part {', '.join(missing)} has no answers: there is no figure of all", field="RUN")
    return [each["run_id"] for each in parts.values()]


def compare_stored(db: PerfDB, runs: list[str], limit: int = 50, offset: int = 0) -> dict[str, Any]:
    """Two runs in pairs, see ``pairs.compare``; InputError unless there are two, both evaluated on the same samples.

    A part stands for all parts of its evaluation (``beside.whole_beside``). Where one of the two can't, the same part
    of both makes pairs by itself, and the first sentence says why.
    """
    ids = list(dict.fromkeys(db.resolve_run(run) for run in runs))
    if len(ids) != 2:
        raise InputError(f"two different runs make pairs; these are {len(ids)}", field="RUN")
    results = [db.get_result(each) for each in ids]
    alone = ""
    try:
        sides = [_with_answers(db, each) for each in results]
    except InputError as error:
        if (part := _same_part(*results)) is None:
            raise
        alone = f"These are parts {part} alone, for there is no whole of both: {error.message}."
        sides = [(each, answers_of(db, each)) for each in results]
    (first, one), (second, two) = sides
    if first.run_id == second.run_id:
        raise InputError(f"{ids[0]} and {ids[1]} are parts of one evaluation: no pair", field="RUN")
    document = compare(first, second, (one, two), limit, offset)
    return {**document, "sentences": [alone, *document["sentences"]]} if alone else document


def _same_part(first: ResultDocument, second: ResultDocument) -> str | None:
    """Which part both are; None where they are not the same one of as many."""
    one, two = (value_at(each.model_dump(include={"provenance"}), PART) for each in (first, second))
    return str(one) if one is not None and one == two else None


def _with_answers(db: PerfDB, result: ResultDocument) -> tuple[ResultDocument, pa.Table]:
    """A run with its answers, or all parts of what it is a part of as one."""
    parts = whole_beside(db, _keys_of(db, result))
    if not parts:
        return result, answers_of(db, result)
    results = [db.get_result(each) for each in _runs_of(parts)]
    whole = whole_of([(each, answers_of(db, each)) for each in results])
    return whole.result, whole.table
