"""Hosts and their leader in PerfDB. Ages are taken by the database's clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from inferbench_tasks.cluster.clock import ClockOffset
from inferbench_tasks.cluster.host import CacheUse, Facts, Host
from inferbench_tasks.cluster.unreadable import skipped, why
from inferbench_tasks.cluster.versions import Versions
from inferbench_tasks.errors import InputError
from inferbench_tasks.perfdb.session import PATIENCE_S
from inferbench_tasks.perfdb.store import PerfDB

HOSTS = "hosts"
LEADER = "leader"
_THE_LEADER = "leader"


class _Leader(BaseModel):
    versions: Versions
    home: str


class UnreadHost(BaseModel):
    """A host whose document can't be read. ``host``: its name, as far as that can."""

    home: str
    host: str
    why: str


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
        """Its versions and the id of its data directory; None where none has said so yet, or nobody can read it.

        Who is admitted for that reason is given no job if its versions are not the scheduler's (``Cluster.devices``).
        """
        document = self._do(lambda c: c.find_one({"_id": _THE_LEADER}), LEADER)
        if document is None:
            return None
        try:
            read = _Leader.model_validate(document)
        except ValidationError as error:
            skipped(f"The leader's document ({LEADER})", why(error))
            return None
        return read.versions, read.home

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

    def enter(self, home: str, versions: Versions, facts: Facts, token_ends: datetime | None = None) -> None:
        """What a worker tells when it starts; clock and cache stay as they were told last.

        ``token_ends``: of the token by which it joined; None where it joined by none.
        """
        fields = {
            "versions": versions.model_dump(),
            "facts": facts.model_dump(),
            "token_ends": token_ends,
        }
        self._write(HOSTS, home, fields, "entered_at")

    def tell_clock(self, home: str, offset: ClockOffset) -> None:
        """The newest measurement of a host's clock."""
        self._write(HOSTS, home, {"clock": offset.model_dump()}, "clock_at")

    def tell_cache(self, home: str, use: CacheUse) -> None:
        """What a host's cache takes now."""
        self._write(HOSTS, home, {"cache": use.model_dump()}, "cache_at")

    def get(self, home: str) -> Host | None:
        """The host with that data directory; None where none of its workers has told of it, or nobody can read that."""
        return next(iter(self._hosts({"_id": home})[0]), None)

    def all(self) -> list[Host]:
        """All that were ever told of and can be read, ordered by name."""
        return self._hosts({})[0]

    def all_and_unread(self) -> tuple[list[Host], list[UnreadHost]]:
        """The same, and those whose documents can't be read."""
        return self._hosts({})

    def _hosts(self, where: Mapping[str, Any]) -> tuple[list[Host], list[UnreadHost]]:
        # What is no date has no age; a subtraction would fail for all.
        measured = {"$eq": [{"$type": "$clock_at"}, "date"]}
        age = {"$cond": [measured, {"$divide": [{"$subtract": ["$$NOW", "$clock_at"]}, 1000]}, None]}
        joined = {"$eq": [{"$type": "$token_ends"}, "date"]}
        left = {"$cond": [joined, {"$divide": [{"$subtract": ["$token_ends", "$$NOW"]}, 1000]}, None]}
        pipeline = [
            # A clock that was told before the facts has no host yet.
            {"$match": {**where, "facts": {"$exists": True}}},
            {"$set": {"clock_age_s": age, "token_left_s": left}},
            {"$sort": {"facts.host": 1, "_id": 1}},
        ]
        documents = self._do(lambda c: list(c.aggregate(pipeline)), HOSTS)
        hosts, unread = [], []
        for document in documents:
            try:
                hosts.append(Host.model_validate({**document, "home": document["_id"]}))
            except ValidationError as error:
                unread.append(_unread(document, error))
        return hosts, unread

    def _write(self, collection: str, key: str, fields: Mapping[str, Any], moment: str) -> None:
        set_ = {name: {"$literal": value} for name, value in fields.items()} | {moment: "$$NOW"}
        self._do(lambda c: c.update_one({"_id": key}, [{"$set": set_}], upsert=True), collection)

    def _do(self, operation: Any, collection: str) -> Any:
        return self.db.retrying(
            lambda: operation(self.db.collection(collection)), f"the {collection}", self.patience_s
        )


def _unread(document: Mapping[str, Any], error: ValidationError) -> UnreadHost:
    home, facts = str(document["_id"]), document.get("facts")
    name = facts.get("host") if isinstance(facts, dict) else None
    text = skipped(f"The document of host {home} (collection {HOSTS})", why(error))
    return UnreadHost(home=home, host=name if isinstance(name, str) else "unknown", why=text)
