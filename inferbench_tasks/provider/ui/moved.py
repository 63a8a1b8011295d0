"""Rows of runs with the word of those whose rate moved, so that no list shows its mean as a level of the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inferbench_tasks.analysis import steadiness
from inferbench_tasks.figures import FIGURES
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.perfdb.values import to_plain


def with_steadiness(db: PerfDB, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows (``perfdb.frames.rows``), each with ``not_steady``: why its throughput moved, None where not so."""
    where = {"run_id": {"$in": [row["run"] for row in rows]}}
    documents = db.find_raw(where, BY_RUN, fields=("run_id", "attempt", *steadiness.PATHS)) if rows else []
    throughput = FIGURES["throughput_rps"]
    why_by_run = {
        (d["run_id"], d["attempt"]): steadiness.unsteady(throughput, to_plain(d)) for d in documents
    }
    return [{**row, "not_steady": why_by_run.get((row["run"], row.get("attempt")))} for row in rows]
