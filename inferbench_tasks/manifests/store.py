"""Manifests in PerfDB, collection ``manifests``. A version that is there never changes."""

from __future__ import annotations

from typing import Any

from pymongo.errors import DuplicateKeyError

from inferbench_tasks.errors import InputError, PerfDBError, SubmissionError
from inferbench_tasks.manifests.kinds.base import KINDS, Manifest
from inferbench_tasks.manifests.reading import of_plain
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain, to_stored

COLLECTION = "manifests"


class ManifestStore:
    """The manifests of one PerfDB."""

    def __init__(self, db: PerfDB) -> None:
        self._db = db

    def add(self, manifest: Manifest, user: str = "anonymous") -> bool:
        """Keep a manifest; False if exactly it was there. InputError where its version has other content."""
        document = {
            "_id": manifest.id,
            "kind": manifest.kind,
            "name": manifest.name,
            "version": manifest.version,
            "digest": manifest.digest,
            "user": user,
            "created_at": self._db.now(),
            "content": to_stored(manifest.content()),
        }
        return self._db.retrying(lambda: self._insert(dict(document)), f"adding {manifest.id}")

    def _insert(self, document: dict[str, Any]) -> bool:
        manifests = self._db.collection(COLLECTION)
        try:
            manifests.insert_one(document)
        except DuplicateKeyError:
            there = manifests.find_one({"_id": document["_id"]}, {"digest": 1, "created_at": 1}) or {}
            if there.get("digest") == document["digest"]:
                return False
            raise InputError(
                f"PerfDB has {document['_id']} with other content (digest {str(there.get('digest'))[:12]}, this is "
                f"{document['digest'][:12]}); a version never changes: give this one a new version"
            ) from None
        return True

    def all(self) -> list[Manifest]:
        """All of them; those of a kind that is not installed are left out. PerfDBError where one was changed there."""
        documents = self._db.retrying(
            lambda: list(self._db.collection(COLLECTION).find({}, sort=[("_id", 1)])), "reading manifests"
        )
        return [_checked(document) for document in documents if document["kind"] in KINDS]


def _checked(document: dict[str, Any]) -> Manifest:
    identity = document["_id"]
    try:
        manifest = of_plain(to_plain(document["content"]), f"PerfDB, {identity}")
    except SubmissionError as error:
        raise PerfDBError(f"The manifest {identity} in PerfDB can't be read: {error}") from error
    if manifest.digest != document["digest"] or manifest.id != identity:
        raise PerfDBError(
            f"The manifest {identity} in PerfDB was changed: its digest is {manifest.digest[:12]}, "
            f"{str(document['digest'])[:12]} was added."
        )
    return manifest
