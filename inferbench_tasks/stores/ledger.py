"""PerfDB's list of artifacts: who made them, where they are stored, who asked for them, and what was found damaged.

Ages are taken by the database's clock, as those of leases: hosts' clocks need not agree.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict

from inferbench_tasks.cluster.store import DEVICES
from inferbench_tasks.contracts.located import references
from inferbench_tasks.perfdb.session import PATIENCE_S
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain
from inferbench_tasks.stores.manifest import Manifest

COLLECTION = "artifacts"
#: Held by who collects garbage: puts wait until it is over, or until it must have been killed. It has PerfDB's id too.
LOCK = "collecting"
LOCK_FOR = timedelta(minutes=10)
#: A put marks itself again and again; after so long it must have been killed, as the collector has it.
PUT_FOR = timedelta(minutes=30)
#: As who waits for it has it: an earlier version marks itself once a file.
PUT_FRESH = timedelta(minutes=1)
#: A run that was killed counts as running for ever.
STALE = timedelta(days=14)
MOST_FAULTS = 20


class Fault(BaseModel):
    """A copy that was not what it should be."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    host: str
    what: str


class Suspicion(BaseModel):
    """An object of a store that a host did not read as what it must be: its store's URL and key, and who read it so."""

    model_config = ConfigDict(frozen=True)

    url: str
    key: str
    host: str


class Known(BaseModel):
    """One artifact. ``homes``: id of a data directory that had it -> its host; ``stored``: URLs of stores.

    ``suspicions``: that no home has looked into yet.
    """

    model_config = ConfigDict(frozen=True)

    digest: str
    files: int = 0
    bytes: int = 0
    names: tuple[str, ...] = ()
    homes: dict[str, str] = {}
    stored: tuple[str, ...] = ()
    used_at: datetime
    wanted_at: datetime | None = None
    wanted_by: str = ""
    faults: tuple[Fault, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()


class Ledger:
    """Of one PerfDB."""

    def __init__(self, db: PerfDB, patience_s: float = PATIENCE_S) -> None:
        self._db = db
        self._patience_s = patience_s

    def now(self) -> datetime:
        """The time by the database's clock, which ``used_at`` is of."""
        return self._db.now(self._patience_s)

    def enter(self, manifests: Iterable[Manifest], home: str, host: str) -> None:
        """That home has these, and a run uses them now."""
        for manifest in manifests:
            about = {
                "files": len(manifest.files),
                "bytes": manifest.total_bytes,
                "names": [file.name for file in manifest.files[:8]],
                f"homes.{home}": host,
            }
            self._change(manifest.digest, {"$set": about, "$currentDate": {"used_at": True}}, upsert=True)

    def store(self, digest: str, url: str, settled: Iterable[Suspicion] = ()) -> None:
        """It is whole in that store, whatever ``settled`` had said; nobody waits for it any more."""
        change = {
            "$addToSet": {"stored": url},
            "$unset": {"wanted_at": "", "wanted_by": ""},
            "$pullAll": {"suspicions": [each.model_dump() for each in settled]},
        }
        self._change(digest, change)

    def begin_put(self, digest: str) -> None:
        """It is being stored: before it looks whether somebody collects, so that one of the two sees the other."""
        self._change(digest, {"$currentDate": {"putting_at": True, "used_at": True}})

    def end_put(self, digest: str) -> None:
        """It is stored, or is not to be."""
        self._change(digest, {"$unset": {"putting_at": ""}})

    def puts(self) -> int:
        """How many artifacts are being stored now."""
        where = _younger("putting_at", PUT_FOR)
        return int(self._do(lambda: self._collection().count_documents(where)))

    def being_put(self, digest: str) -> bool:
        """Whether somebody stores it now, or is to after what he stores now."""
        where = {"_id": digest, **_younger("putting_at", PUT_FRESH)}
        return self._do(lambda: self._collection().find_one(where, {"_id": 1})) is not None

    def want(self, digest: str, host: str) -> None:
        """Somebody waits for what is in no store, or doubted there: a home that has it is to store it."""
        missing = [{"stored.0": {"$exists": False}}, {"suspicions.0": {"$exists": True}}]
        change = {"$currentDate": {"wanted_at": True}, "$set": {"wanted_by": host}}
        self._do(lambda: self._collection().update_one({"_id": digest, "$or": missing}, change))

    def suspect(self, digest: str, suspicion: Suspicion) -> None:
        """An object of it is not whole, as one host reads it; a home that has the artifact is to look at it."""
        change = {
            "$addToSet": {"suspicions": suspicion.model_dump()},
            "$currentDate": {"wanted_at": True},
            "$set": {"wanted_by": suspicion.host},
        }
        self._change(digest, change)

    def lose(self, digest: str, home: str) -> None:
        """That home has it no longer."""
        self._change(digest, {"$unset": {f"homes.{home}": ""}})

    def report(self, digest: str, host: str, what: str) -> None:
        """A damaged copy; the last ones are kept."""
        fault = {"at": self.now(), "host": host, "what": what}
        self._change(digest, {"$push": {"faults": {"$each": [fault], "$slice": -MOST_FAULTS}}})

    def get(self, digest: str) -> Known | None:
        """None where nobody ever had it."""
        found = self._find({"_id": digest})
        return found[0] if found else None

    def sizes(self, digests: Collection[str]) -> dict[str, int]:
        """Bytes of each that somebody had."""
        return {known.digest: known.bytes for known in self._find({"_id": {"$in": sorted(digests)}})}

    def matching(self, prefix: str) -> list[Known]:
        """Those whose digests begin so."""
        return self._find({"_id": {"$regex": f"^{prefix}"}})

    def all(self) -> list[Known]:
        """Those used last come first."""
        return sorted(self._find({"_id": {"$ne": LOCK}}), key=lambda known: known.used_at, reverse=True)

    def wanted_of(self, home: str) -> list[Known]:
        """What others wait for and this home has had."""
        return self._find({"wanted_at": {"$exists": True}, f"homes.{home}": {"$exists": True}})

    def others(self, home: str) -> bool:
        """Whether devices of other homes work for this PerfDB."""
        where = {"home": {"$exists": True, "$nin": ["", home]}, "stopped": False}
        return self._do(lambda: self._db.collection(DEVICES).find_one(where, {"_id": 1})) is not None

    def owner(self) -> str:
        """This PerfDB's id among all that may use one store: 64 hex digits, made once."""

        def ask() -> str:
            ledger = self._collection()
            ledger.update_one({"_id": LOCK}, {"$setOnInsert": {"until": None}}, upsert=True)
            new = {"$set": {"owner": secrets.token_hex(32)}}
            ledger.update_one({"_id": LOCK, "owner": {"$exists": False}}, new)
            return str(ledger.find_one({"_id": LOCK})["owner"])

        return str(self._do(ask))

    # -- what is needed ----------------------------------------------------------------------------

    def needed(self, digests: Collection[str]) -> set[str]:
        """Those that a run in PerfDB was told of: its result refers to them, or it is under way."""
        fields = {"stages.output": 1}
        asked, named = set(digests), set()
        for document in self._do(lambda: list(self._db.collection("runs").find({}, fields))):
            named |= references(document)
        return asked & named

    def in_use(self) -> set[str]:
        """What runs that are under way were told of."""
        recent = {"status": "running", "updated_at": {"$gte": self.now() - STALE}}
        rows = self._do(lambda: list(self._db.collection("runs").find(recent, {"stages.output": 1})))
        return set().union(*(references(row) for row in rows))

    def forget(self, known: Known) -> bool:
        """Remove one that nobody has used since it was read; whether it went."""
        where = {"_id": known.digest, "used_at": known.used_at}
        return bool(self._do(lambda: self._collection().delete_one(where).deleted_count))

    # -- one collector, and no puts meanwhile --------------------------------------------------------

    def lock(self) -> bool:
        """Whether this process may collect now."""
        free = {"_id": LOCK, "$expr": {"$lte": ["$until", "$$NOW"]}}  # null is less than any time
        taken = [{"$set": {"until": {"$add": ["$$NOW", _ms(LOCK_FOR)]}}}]

        def take() -> bool:
            self._collection().update_one({"_id": LOCK}, {"$setOnInsert": {"until": None}}, upsert=True)
            return bool(self._collection().update_one(free, taken).modified_count)

        return bool(self._do(take))

    def unlock(self) -> None:
        """Puts may go on."""
        self._change(LOCK, {"$set": {"until": None}})

    def locked(self) -> bool:
        """Whether somebody collects."""
        where = {"_id": LOCK, "$expr": {"$gt": ["$until", "$$NOW"]}}
        return self._do(lambda: self._collection().find_one(where)) is not None

    def _find(self, where: Mapping[str, Any]) -> list[Known]:
        rows = self._do(lambda: list(self._collection().find(where)))
        return [
            Known.model_validate({**to_plain(row), "digest": row["_id"]})
            for row in rows
            if row["_id"] != LOCK
        ]

    def _change(self, digest: str, change: Mapping[str, Any], *, upsert: bool = False) -> None:
        self._do(lambda: self._collection().update_one({"_id": digest}, change, upsert=upsert))

    def _collection(self) -> Any:
        return self._db.collection(COLLECTION)

    def _do(self, operation: Any) -> Any:
        return self._db.retrying(operation, "the artifacts", self._patience_s)


def _younger(name: str, than: timedelta) -> dict[str, Any]:
    """Of a moment that the database has set; none is younger where there is no such moment."""
    return {"$expr": {"$gt": [f"${name}", {"$subtract": ["$$NOW", _ms(than)]}]}}


def _ms(period: timedelta) -> int:
    return round(period.total_seconds() * 1000)
