"""Traces in PerfDB: those of runs, which their results tell of, and those of other tools, documents in ``traces``.

An imported one is kept apart from all that InferBench measured: it has no run, no verdict and no figures, and no
analysis or comparison reads it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import ResultDocument
from inferbench_tasks.perfdb.file_ids import least_file_id
from inferbench_tasks.perfdb.store import NEWEST_FIRST, PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.tracing.missing import untold_in_words

COLLECTION = "traces"
#: Ids of imported traces; what follows is of their file's SHA-256, so that a file is kept once.
PREFIX = "imported-"
#: What every document of an imported trace says of itself.
NO_VERDICT = "imported from another tool: not measured by InferBench, no verdict, in no figure"
_LONGEST_DAYS = 36_500
#: Storing takes no longer.
_UNFINISHED_S = 86_400.0
_OF_RUNS = (
    "run_id", "created_at", "model.name", "backend.kind", "extensions.trace.requests", "extensions.trace.spans",
    "extensions.trace.of", "extensions.trace.levels", "extensions.trace.defects",
    "extensions.trace.layers.framework_ms",
    "extensions.trace.layers.explained_ratio", "extensions.trace.problem", "extensions.trace.file.bytes",
    "extensions.trace.deleted_at", "extensions.trace.unstored", "extensions.trace.untold",
)  # fmt: skip


def traced_runs(db: PerfDB, limit: int = 0, before: datetime | None = None) -> list[dict[str, Any]]:
    """A row for each run with a trace, or with the reason why there is none; the newest first."""
    where: dict[str, Any] = {"extensions.trace": {"$exists": True}}
    if before is not None:
        where |= {"created_at": {"$lt": before}}
    return [_row_of_run(to_plain(each)) for each in db.find_raw(where, NEWEST_FIRST, limit, fields=_OF_RUNS)]


def imported(db: PerfDB, limit: int = 0, before: datetime | None = None) -> list[dict[str, Any]]:
    """The documents of imported traces, the newest first."""
    where = {} if before is None else {"created_at": {"$lt": before}}
    return db.retrying(
        lambda: [
            to_plain(each)
            for each in db.collection(COLLECTION).find(where, sort=list(NEWEST_FIRST), limit=limit)
        ],
        "finding imported traces",
    )


def imported_rows(db: PerfDB, limit: int = 0, before: datetime | None = None) -> list[dict[str, Any]]:
    """A row for each imported trace, as those of runs are, the newest first."""
    return [_row_of_imported(each) for each in imported(db, limit, before)]


def rows(db: PerfDB, limit: int = 0, before: datetime | None = None) -> list[dict[str, Any]]:
    """Both kinds in one list, the newest first; ``origin`` says which."""
    both = traced_runs(db, limit, before)
    both += imported_rows(db, limit, before)
    both.sort(key=lambda row: row["created_at"], reverse=True)
    return both[: limit or None]


def stored_before(db: PerfDB, days: float) -> list[str]:
    """The traces of both kinds with spans that are older, the newest first."""
    before = db.now() - timedelta(days=min(days, _LONGEST_DAYS))
    return [row["run"] for row in rows(db, before=before) if row["bytes"]]


def find_imported(db: PerfDB, text: str) -> dict[str, Any] | None:
    """The document of an imported trace by its id or a unique start of it; None for what is no such id."""
    if not text.startswith(PREFIX):
        return None
    # No regular expression of what a user types; ids are ASCII.
    where = {"_id": {"$gte": text, "$lt": text + "\x7f"}}
    found = db.retrying(
        lambda: list(db.collection(COLLECTION).find(where, limit=2)), "finding an imported trace"
    )
    if len(found) > 1:
        raise InputError(f"several imported traces start with {text!r}; say more of it", field="TRACE")
    if not found:
        raise InputError(f"PerfDB has no imported trace {text!r}; `inferbench trace list` shows those it has")
    return dict(to_plain(found[0]))


def refuse_imported(text: str) -> None:
    """InputError for an imported trace where only runs of ours count."""
    if text.startswith(PREFIX):
        raise InputError(f"{text} is {NO_VERDICT}; analyses and comparisons are of traced runs", field="RUN")


def delete(db: PerfDB, trace: str) -> int:
    """Remove an imported trace, or a run's spans; the bytes that are free now.

    The file goes before what names it, so that what was interrupted is ended by a repetition. Of a run its result
    stays, with the trace's summary and the moment at which its spans were deleted.
    """
    document = find_imported(db, trace)
    if document is not None:
        db.files.delete(document["file"]["id"])
        db.retrying(
            lambda: db.collection(COLLECTION).delete_one({"_id": document["_id"]}),
            "deleting an imported trace",
        )
        return int(document["bytes"])
    freed = 0
    for result in db.find_results(
        {"run_id": db.resolve_run(trace), "extensions.trace.file": {"$exists": True}}
    ):
        file = result.extensions["trace"]["file"]
        db.files.delete(file["id"])
        _forget_spans(db, result)
        freed += int(file["bytes"])
    if not freed:
        raise InputError(f"{trace} has no spans in PerfDB", field="TRACE")
    return freed


def delete_unfinished(db: PerfDB) -> None:
    """Remove what killed processes left: spans without their document, and files that were stored in part."""
    # By its id, which is dated by PerfDB's clock, as the other is not.
    oldest = least_file_id(db.now() - timedelta(seconds=_UNFINISHED_S))
    where = {"metadata.imported_trace": {"$exists": True}, "_id": {"$lt": oldest}}
    entries = db.retrying(lambda: list(db.collection("fs.files").find(where)), "finding stored spans")
    named = {document["file"]["id"] for document in imported(db)}
    for entry in entries:
        if str(entry["_id"]) not in named:
            db.files.delete(str(entry["_id"]))
    db.files.delete_unfinished(_UNFINISHED_S)


def _forget_spans(db: PerfDB, result: ResultDocument) -> None:
    change = {"$unset": {"extensions.trace.file": 1}, "$set": {"extensions.trace.deleted_at": db.now()}}
    where = {"run_id": result.run_id, "attempt": result.attempt}
    db.retrying(lambda: db.collection("results").update_one(where, change), "deleting a run's spans")


def _row_of_run(raw: dict[str, Any]) -> dict[str, Any]:
    trace = raw["extensions"]["trace"]
    layers = trace.get("layers") or {}
    return {
        "run": raw["run_id"],
        "origin": "run",
        "created_at": raw["created_at"],
        "model": raw["model"]["name"],
        "backend": raw["backend"]["kind"],
        "requests": trace.get("requests"),
        # Of a share of a load: how many requests that had.
        "of": trace.get("of"),
        "spans": trace.get("spans"),
        "levels": ", ".join(trace.get("levels") or []),
        "defects": trace.get("defects"),
        "framework_ms": layers.get("framework_ms"),
        "explained_ratio": layers.get("explained_ratio"),
        "bytes": (trace.get("file") or {}).get("bytes"),
        "problem": _problem(trace),
    }


def _problem(trace: dict[str, Any]) -> str:
    """Why there are no spans, or no longer; else which levels were asked for and could not be told. "" of a whole
    one.
    """
    if trace.get("deleted_at"):
        return f"its spans were deleted on {trace['deleted_at']:%Y-%m-%d}"
    if why := trace.get("problem") or trace.get("unstored"):
        return str(why).splitlines()[0]
    return "; ".join(untold_in_words(trace))


def _row_of_imported(document: dict[str, Any]) -> dict[str, Any]:
    return {
        "run": document["_id"],
        "origin": "imported",
        "created_at": document["created_at"],
        "model": document["name"],
        "backend": document["source"]["form"],
        "requests": document["traces"],
        "spans": document["spans"],
        "levels": ", ".join(document["levels"]),
        "defects": sum(each["count"] for each in document["findings"]),
        "bytes": document["bytes"],
        "problem": "",
    }
