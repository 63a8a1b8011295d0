"""Hosts and their leader in PerfDB. Ages are taken by the database's clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from inferbench_tasks.cluster.clock import ClockOffset
from inferbench_tasks.cluster.host import CacheUse, Facts, Host
from inferbench_tasks.cluster.versions import Versions
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.session import PATIENCE_S
from inferbench_tasks.perfdb.store import PerfDB

HOSTS = "hosts"
LEADER = "leader"
_THE_LEADER = "leader"


class Hosts:
    """The hosts of one PerfDB. ``patience_s``: how long to wait for a server that is away."""

    def __init__(self, db: PerfDB, patience_s: float = PATIENCE_S) -> None:
        self.db = db
        self.patience_s = patience_s

    # -- the leader ---------------------------------------------------------------------------------

    def lead(self, versions: Versions, home: str) -> None:
        """Say that a leader with these versions gives jobs to the workers; the last one that says so counts."""
        document = {"versions": versions.model_dump(), "home": home}
        self._write(LEADER, _THE_LEADER, document, "at")

    def leader(self) -> tuple[Versions, str] | None:
        """Its versions and the id of its data directory; None where none has said so yet."""
        document = self._do(lambda c: c.find_one({"_id": _THE_LEADER}), LEADER)
        return (Versions.model_validate(document["versions"]), document["home"]) if document else None

    def admit(self, versions: Versions) -> None:
        """InputError, with both numbers, where the leader's versions are not the worker's."""
        leader = self.leader()
        if leader and (reason := versions.unlike(leader[0])):
            raise InputError(
                f"This worker does not fit its leader: {reason}. Install the leader's versions here "
                f"(pip install inferbench=={leader[0].inferbench}, with Python {leader[0].python}), or bring "
                "the leader to those of this host and start it again."
            )

    # -- hosts --------------------------------------------------------------------------------------

    def enter(self, home: str, versions: Versions, facts: Facts) -> None:
        """What a worker tells when it starts; clock and cache stay as they were told last."""
        self._write(
            HOSTS, home, {"versions": versions.model_dump(), "facts": facts.model_dump()}, "entered_at"
        )

    def tell_clock(self, home: str, offset: ClockOffset) -> None:
        """The newest measurement of a host's clock."""
        self._write(HOSTS, home, {"clock": offset.model_dump()}, "clock_at")

    def tell_cache(self, home: str, use: CacheUse) -> None:
        """What a host's cache takes now."""
        self._write(HOSTS, home, {"cache": use.model_dump()}, "cache_at")

    def get(self, home: str) -> Host | None:
        """The host with that data directory; None where none of its workers has told of it."""
        return next(iter(self._hosts({"_id": home})), None)

    def all(self) -> list[Host]:
        """All that were ever told of, ordered by name."""
        return self._hosts({})

    def _hosts(self, where: Mapping[str, Any]) -> list[Host]:
        age = {"$divide": [{"$subtract": ["$$NOW", "$clock_at"]}, 1000]}
        pipeline = [
            # A clock that was told before the facts has no host yet.
            {"$match": {**where, "facts": {"$exists": True}}},
            {"$set": {"clock_age_s": age}},
            {"$sort": {"facts.host": 1, "_id": 1}},
        ]
        documents = self._do(lambda c: list(c.aggregate(pipeline)), HOSTS)
        return [Host.model_validate({**document, "home": document["_id"]}) for document in documents]

    def _write(self, collection: str, key: str, fields: Mapping[str, Any], moment: str) -> None:
        set_ = {name: {"$literal": value} for name, value in fields.items()} | {moment: "$$NOW"}
        self._do(lambda c: c.update_one({"_id": key}, [{"$set": set_}], upsert=True), collection)

    def _do(self, operation: Any, collection: str) -> Any:
        return self.db.retrying(
            lambda: operation(self.db.collection(collection)), f"the {collection}", self.patience_s
        )
