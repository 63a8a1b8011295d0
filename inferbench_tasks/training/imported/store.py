"""Imports in PerfDB: a collection of their own, which no list, ranking or comparison of results reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.documents import Document
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain, to_stored
from inferbench_tasks.training.imported.rows import Import
from inferbench_tasks.training.listing import result_of
from inferbench_tasks.training.result import TrainingResult

COLLECTION = "imported_trainings"
#: An import's id begins with it.
PREFIX = "import-"


class ImportedTraining(Document):
    """An import as it is kept. ``import_id``: of its content, so that the same files are kept once."""

    import_id: str
    created_at: datetime
    origin: str = "imported"
    content: Import


def keep(db: PerfDB, content: Import) -> ImportedTraining:
    """Write it, unless it is there; as it stands in PerfDB."""
    digest = hashlib.sha256(content.as_json().encode()).hexdigest()
    document = ImportedTraining(import_id=f"{PREFIX}{digest[:12]}", created_at=db.now(), content=content)
    stored = to_stored(document.model_dump(exclude={"import_id"}))
    db.retrying(
        lambda: db.collection(COLLECTION).update_one(
            {"_id": document.import_id}, {"$setOnInsert": stored}, upsert=True
        ),
        "keeping an import",
    )
    return find(db, document.import_id)


def listed(db: PerfDB, limit: int = 0) -> list[dict[str, Any]]:
    """A line for each import, the newest first; ``limit``: at most so many, 0 for all."""
    documents = db.retrying(
        lambda: list(db.collection(COLLECTION).find().sort("created_at", -1).limit(limit)), "listing imports"
    )
    return [_row(_read(of)) for of in documents]


def _row(document: ImportedTraining) -> dict[str, Any]:
    content = document.content
    clusters = dict.fromkeys(row.cluster for row in content.rows)
    devices = dict.fromkeys([*(row.device for row in content.rows), *(log.device for log in content.logs)])
    return {
        "import": document.import_id,
        "created": document.created_at,
        "rows": len(content.rows),
        "logs": len(content.logs),
        "clusters": ", ".join(clusters) or None,
        "devices": ", ".join(devices),
    }


def run_or_import(db: PerfDB, text: str) -> TrainingResult | ImportedTraining:
    """What a training's run or an import is meant; ``latest``: the newer of both. InputError where it is neither."""
    if text != "latest":
        return find(db, text) if text.startswith(PREFIX) else result_of(db, text)
    results = db.results_of(TrainingResult, {}, limit=1)
    if not db.retrying(lambda: db.collection(COLLECTION).count_documents({}, limit=1), "counting imports"):
        if not results:
            raise InputError(
                "PerfDB has no training; `inferbench run FILE` of a submission with kind: training measures one, "
                "`inferbench training import FILE...` keeps a table or a log."
            )
        return results[0]
    document = find(db, text)
    return results[0] if results and results[0].created_at > document.created_at else document


def find(db: PerfDB, import_id: str) -> ImportedTraining:
    """By its id, the unique start of one, or 'latest'; InputError without one."""

    def read() -> list[dict[str, Any]]:
        collection = db.collection(COLLECTION)
        if import_id == "latest":
            return list(collection.find().sort("created_at", -1).limit(1))
        return list(collection.find({"_id": {"$gte": import_id, "$lt": import_id + "\uffff"}}).limit(2))

    documents = db.retrying(read, "reading an import")
    if len(documents) != 1:
        what = "several imports begin with" if documents else "PerfDB has no import"
        raise InputError(
            f"{what} {import_id!r}; `inferbench training import FILE...` keeps one and prints its id."
        )
    return _read(documents[0])


def _read(stored: Mapping[str, Any]) -> ImportedTraining:
    fields = to_plain(dict(stored))
    return ImportedTraining.model_validate({"import_id": fields.pop("_id"), **fields})
