"""Files in PerfDB that no result names: a run was killed between their storing and the writing of its result.

A file goes to PerfDB before the document that names it, so that no result ever names what is not there. What a kill
leaves between the two belongs to nobody, and nothing shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bson import ObjectId

from inferbench_tasks.errors import UnknownKindError
from inferbench_tasks.perfdb.file_ids import least_file_id
from inferbench_tasks.perfdb.store import BY_RUN, PerfDB
from inferbench_tasks.pipelines.base import pipeline_of

#: From the first file to the result a stage takes no longer.
YOUNG_S = 86_400.0
_AT_ONCE = 200
_ID = re.compile("[0-9a-f]{24}")


@dataclass(frozen=True, slots=True)
class Unnamed:
    """One such file of a run."""

    id: str
    run_id: str
    name: str
    bytes: int
    age_s: float


def unnamed(db: PerfDB, older_than_s: float = YOUNG_S) -> list[Unnamed]:
    """Those of runs that ended in failure, and of runs that stored a file twice: a repeated stage did so.

    Only these are looked at, for to read every result takes minutes. Not those of a run that goes on, nor of a kind
    that is not installed here: nobody knows what its results name. Raises PerfDBError.
    """
    now = db.now()
    # By their ids, which are dated by PerfDB's clock, as their dates are not.
    old: dict[str, Any] = {"_id": {"$lt": least_file_id(now - timedelta(seconds=older_than_s))}}
    suspects = _suspects(db, old)
    found = []
    for first in range(0, len(suspects), _AT_ONCE):
        some = suspects[first : first + _AT_ONCE]
        named = _named(db, some)
        where = {**old, "metadata.run_id": {"$in": sorted(named)}}
        entries = db.retrying(
            lambda where=where: list(db.collection("fs.files").find(where)),  # type: ignore[misc]
            "finding stored files",
        )
        for entry in entries:
            run_id = entry["metadata"]["run_id"]
            if str(entry["_id"]) not in named[run_id]:
                age_s = (now - entry["_id"].generation_time).total_seconds()
                found.append(Unnamed(str(entry["_id"]), run_id, entry["filename"], entry["length"], age_s))
    return found


def _suspects(db: PerfDB, old: dict[str, Any]) -> list[str]:
    same = {"run": "$metadata.run_id", "attempt": "$metadata.attempt", "name": "$filename"}
    of_run = [{"$project": {"status": 1}}]
    failed = {"of.status": {"$in": ["failed", "cancelled"]}}
    pipeline: list[dict[str, Any]] = [
        {"$match": {**old, "metadata.run_id": {"$type": "string"}}},
        {"$group": {"_id": same, "count": {"$sum": 1}}},
        {"$group": {"_id": "$_id.run", "most": {"$max": "$count"}}},
        {
            "$lookup": {
                "from": "runs",
                "localField": "_id",
                "foreignField": "_id",
                "pipeline": of_run,
                "as": "of",
            }
        },
        {"$match": {"$or": [failed, {"of.status": "done", "most": {"$gt": 1}}]}},
        {"$sort": {"_id": 1}},
    ]
    return db.retrying(
        lambda: [each["_id"] for each in db.collection("fs.files").aggregate(pipeline)],
        "finding stored files",
    )


def _named(db: PerfDB, run_ids: list[str]) -> dict[str, set[str]]:
    """All ids in a run's results and in what its stages told; without runs of a kind that is not installed."""
    of_kind: dict[str, list[str]] = {}
    named: dict[str, set[str]] = {}
    for run in db.retrying(
        lambda: list(db.collection("runs").find({"_id": {"$in": run_ids}})), "finding runs"
    ):
        try:
            collection = pipeline_of(run.get("job", {})).result().collection
        except UnknownKindError:
            continue
        of_kind.setdefault(collection, []).append(run["_id"])
        named[run["_id"]] = set(_ids_in(run.get("stages")))
    for collection, ids in of_kind.items():
        for result in db.find_raw({"run_id": {"$in": ids}}, BY_RUN, collection=collection):
            named[result["run_id"]].update(_ids_in(result))
    return named


def _ids_in(value: Any) -> Iterator[str]:
    """Whatever may be a file's id: a kind of others need not name files as ours do (``perfdb.values.Attachment``)."""
    if isinstance(value, dict):
        for each in value.values():
            yield from _ids_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _ids_in(each)
    elif isinstance(value, (str, ObjectId)) and _ID.fullmatch(str(value)):
        yield str(value)
