"""Deletions of results, which end even if their process is killed: what goes is written down before anything goes.

A result goes before its files, so that none ever names what is not there; who then knows of the files is the document
of the deletion (collection ``deletions``), which goes last. What was killed in between ends when it is asked for again,
and by the next cleaning (``upkeep.clean``). Of the files that a result names those go that were stored for its run:
parts of it may come from a stranger's process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from bson import ObjectId
from pymongo.collection import Collection

from inferbench_tasks.perfdb.files import Files
from inferbench_tasks.perfdb.held_changes import LEAVING
from inferbench_tasks.perfdb.session import PATIENCE_S
from inferbench_tasks.perfdb.values import attachments_of, to_plain

T = TypeVar("T")
COLLECTION = "deletions"
REMEDIES = "verified_remedies"
#: Where results lie whose files, and themselves, are deleted.
OF_RESULTS = ("results", "trainings")
#: A deletion takes seconds; one that began so long ago was killed.
KILLED_S = 600.0


class Database(Protocol):
    """What is asked of a PerfDB, whose store has its deletions done here."""

    files: Files

    def now(self, patience_s: float = PATIENCE_S) -> datetime:
        """The moment by its clock."""

    def collection(self, name: str) -> Collection[dict[str, Any]]:
        """One of its collections."""

    def retrying(self, operation: Callable[[], T], doing: str, patience_s: float = PATIENCE_S) -> T:
        """What an operation that may be repeated returns."""


def delete(db: Database, run_id: str) -> int:
    """Remove all attempts' results of a run with the files that they name, a training's with the remedies of it that
    were run; how many results there were. Ends what an earlier call left. Raises PerfDBError.
    """
    found = [one for collection in OF_RESULTS for one in _of_run(db, collection, run_id)]
    for one in found:
        _write_down(db, one)
    for begun in _begun(db, {"run_id": run_id}):
        end(db, begun)
    _forget_remedies(db, _remedies_of(run_id))
    return len(found)


def killed(db: Database, older_than_s: float = KILLED_S) -> list[dict[str, Any]]:
    """The deletions that began so long ago, by PerfDB's clock, and never ended: ``run_id``, ``attempt``, ``files``
    and ``remedies`` (ids), ``begun_at``.
    """
    return _begun(db, {"begun_at": {"$lt": db.now() - timedelta(seconds=older_than_s)}})


def end(db: Database, begun: dict[str, Any]) -> None:
    """Do all of a deletion that is left of it; harmless where another process does so, too."""
    one = {"_id": begun["document"]}
    about = {name: begun[name] for name in ("run_id", "attempt")}

    def remove_document() -> None:
        documents = db.collection(begun["collection"])
        # Who holds the results of this PerfDB hears which of them goes.
        documents.update_one(one, {"$set": {LEAVING: about}})
        documents.delete_one(one)

    db.retrying(remove_document, f"deleting of {begun['collection']}")
    for file in begun["files"]:
        if ObjectId.is_valid(file):  # a version before wrote down whatever a result named
            db.files.delete_of(file, begun["run_id"])
    # A new result of the same run may have new ones, under the same ids.
    of_old = {"_id": {"$in": begun.get("remedies", [])}, "created_at": {"$not": {"$gt": begun["begun_at"]}}}
    _forget_remedies(db, of_old)
    db.retrying(lambda: db.collection(COLLECTION).delete_one({"_id": begun["_id"]}), "ending a deletion")


def _of_run(db: Database, collection: str, run_id: str) -> Iterator[dict[str, Any]]:
    """What would be written down of each of a run's results there; ``begun_at`` is missing."""
    documents = db.retrying(
        lambda: list(db.collection(collection).find({"run_id": run_id}, sort=[("attempt", 1)])),
        f"finding {collection} to delete",
    )
    remedies = db.retrying(
        lambda: [each["_id"] for each in db.collection(REMEDIES).find(_remedies_of(run_id), {"_id": 1})],
        "finding remedies to delete",
    )
    for document in documents:
        yield {
            "_id": f"{collection}/{document['_id']}",
            "collection": collection,
            "document": document["_id"],
            "run_id": run_id,
            "attempt": document["attempt"],
            "files": list(attachments_of(to_plain(document))),
            "remedies": remedies,
        }


def _write_down(db: Database, one: dict[str, Any]) -> None:
    """Once: of one that was killed before, what it wrote down stays."""
    begun_at: datetime = db.now()
    db.retrying(
        lambda: db.collection(COLLECTION).update_one(
            {"_id": one["_id"]}, {"$setOnInsert": {**one, "begun_at": begun_at}}, upsert=True
        ),
        "beginning a deletion",
    )


def _begun(db: Database, where: dict[str, Any]) -> list[dict[str, Any]]:
    return db.retrying(
        lambda: list(db.collection(COLLECTION).find(where, sort=[("begun_at", 1)])), "finding deletions"
    )


def _remedies_of(run_id: str) -> dict[str, Any]:
    return {"$or": [{"run": run_id}, {"remedied": run_id}]}


def _forget_remedies(db: Database, where: dict[str, Any]) -> None:
    db.retrying(lambda: db.collection(REMEDIES).delete_many(where), f"deleting of {REMEDIES}")
