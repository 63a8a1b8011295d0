"""The links between hosts in PerfDB, each as it was measured last. Ages are taken by the database's clock."""

from __future__ import annotations

from typing import Any

from inferbench_tasks.contracts.link import MeasuredLink
from inferbench_tasks.perfdb.session import PATIENCE_S
from inferbench_tasks.perfdb.store import PerfDB

LINKS = "links"


class Links:
    """``patience_s``: how long to wait for a server that is away."""

    def __init__(self, db: PerfDB, patience_s: float = PATIENCE_S) -> None:
        self.db = db
        self.patience_s = patience_s

    def tell(self, link: MeasuredLink) -> None:
        """The newest measurement of the way from one data directory's host to another's address."""
        key = {"near": link.near.home, "far": link.far.home, "address": link.far.address}
        change = [{"$set": {"link": {"$literal": link.model_dump(mode="json")}, "at": "$$NOW"}}]
        self._do(lambda c: c.update_one({"_id": key}, change, upsert=True))

    def all(self) -> list[tuple[MeasuredLink, float]]:
        """Each with the seconds since it was told, by the hosts' names."""
        age = {"$divide": [{"$subtract": ["$$NOW", "$at"]}, 1000]}
        documents = self._do(lambda c: list(c.aggregate([{"$set": {"age_s": age}}])))
        links = [(MeasuredLink.model_validate(d["link"]), d["age_s"]) for d in documents]
        return sorted(links, key=lambda entry: (entry[0].near.host, entry[0].far.host, entry[0].far.address))

    def _do(self, operation: Any) -> Any:
        return self.db.retrying(lambda: operation(self.db.collection(LINKS)), "the links", self.patience_s)
