"""What a ranking leaves out because the machine was disturbed, in a sentence."""

from __future__ import annotations

from collections.abc import Iterable

from inferbench_tasks.contracts.verdict import DISTURBED
from inferbench_tasks.perfdb.indexes import HELD
from inferbench_tasks.perfdb.queries import parse
from inferbench_tasks.perfdb.store import PerfDB


def left_out_note(db: PerfDB, query: str | Iterable[str] = "") -> str | None:
    """How many disturbed results match, which never rank; None if there is none."""
    where = {"$and": [parse(query).filter, parse(f"verdict={DISTURBED}").filter]}
    # It begins with the verdict: what is no disturbed result is not even looked at.
    count = db.count_results(where, index=HELD)
    return (
        f"{count} disturbed result(s) are left out: their figures are bounds (`verdict={DISTURBED}` lists them)."
        if count
        else None
    )
