"""Evaluations of PerfDB by their runs: what was answered to each sample, and two of them in pairs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from inferbench_tasks.analysis.evaluations.listed import evaluation_of
from inferbench_tasks.analysis.evaluations.pairs import compare
from inferbench_tasks.analysis.evaluations.together import PART, otherwise, part_of, together
from inferbench_tasks.analysis.report.runs import stored_table
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
        ids = _parts_beside(db, db.get_result(ids[0]))
    results = [db.get_result(each) for each in ids]
    for result in results:
        part_of(result)  # said before any file of answers is read
    return together([(result, answers_of(db, result)) for result in results])


def _parts_beside(db: PerfDB, result: ResultDocument) -> list[str]:
    """The runs of its invocation that asked a part of the same."""
    part_of(result)
    query = {"invocation_id": result.invocation_id, PART: {"$type": "string"}}
    # A run that was lost and ran again is there twice, with one id.
    return sorted({each.run_id for each in db.find_results(query) if otherwise(result, each) is None})


def compare_stored(db: PerfDB, runs: list[str], limit: int = 50, offset: int = 0) -> dict[str, Any]:
    """Two runs in pairs, see ``pairs.compare``; InputError unless there are two, both evaluated on the same samples."""
    ids = list(dict.fromkeys(db.resolve_run(run) for run in runs))
    if len(ids) != 2:
        raise InputError(f"two different runs make pairs; these are {len(ids)}", field="RUN")
    first, second = (db.get_result(each) for each in ids)
    return compare(first, second, (answers_of(db, first), answers_of(db, second)), limit, offset)
