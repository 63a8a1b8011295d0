"""With which content runs used a manifest's version, so that a file that was changed under it since is found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from inferbench_tasks.perfdb.store import PerfDB

COLLECTION = "manifests_used"


@dataclass(frozen=True)
class Use:
    """``digest``: of the content that the first run used, which was ``run_id``."""

    digest: str
    run_id: str


class UsedManifests:
    """Those that runs of one PerfDB named."""

    def __init__(self, db: PerfDB) -> None:
        self._db = db

    def remember(self, records: Iterable[Mapping[str, Any]], run_id: str) -> None:
        """``records``: a job's ``manifests``, see ``submission.manifest_record``. What is known of a version stays."""
        if not (records := list(records)):
            return
        now = self._db.now()
        for record in records:
            name = f"{record['kind']}:{record['name']}@{record['version']}"
            first = {"digest": record["digest"], "run_id": run_id, "created_at": now}
            self._db.retrying(partial(self._keep, name, first), f"noting that {name} is used")

    def _keep(self, name: str, first: dict[str, Any]) -> None:
        self._db.collection(COLLECTION).update_one({"_id": name}, {"$setOnInsert": first}, upsert=True)

    def first(self, name: str) -> datetime | None:
        """When a run first named the manifest of that id; None where none did."""
        document = self._db.retrying(
            lambda: self._db.collection(COLLECTION).find_one({"_id": name}, {"created_at": 1}),
            f"reading whether {name} was used",
        )
        return document["created_at"] if document else None

    def since(self) -> datetime | None:
        """When the first use of any manifest was noted: of runs of before then it is not known; None where none was."""
        document = self._db.retrying(
            lambda: self._db.collection(COLLECTION).find_one({}, {"created_at": 1}, sort=[("created_at", 1)]),
            "reading when the first use of a manifest was noted",
        )
        return document["created_at"] if document else None

    def all(self) -> dict[str, Use]:
        """By the manifest's id."""
        documents = self._db.retrying(
            lambda: list(self._db.collection(COLLECTION).find({}, {"digest": 1, "run_id": 1})),
            "reading which manifests were used",
        )
        return {each["_id"]: Use(each["digest"], each["run_id"]) for each in documents}
