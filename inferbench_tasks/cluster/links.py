"""The links between hosts in PerfDB, each as it was measured last. Ages are taken by the database's clock."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from inferbench_tasks.cluster.unreadable import skipped, why
from inferbench_tasks.contracts.link import LinkAround, MeasuredLink
from inferbench_tasks.errors import InferBenchError
from inferbench_tasks.perfdb.session import PATIENCE_S
from inferbench_tasks.perfdb.store import PerfDB

LINKS = "links"
log = logging.getLogger(__name__)


class Links:
    """``patience_s``: how long to wait for a server that is away."""

    def __init__(self, db: PerfDB, patience_s: float = PATIENCE_S) -> None:
        self.db = db
        self.patience_s = patience_s

    def tell(self, link: MeasuredLink) -> None:
        """What was measured just now of the way from one data directory's host to another's address."""
        self._tell(link, "$$NOW")

    def tell_around(self, around: LinkAround) -> None:
        """What a load measured a while ago, after it or, where that was lost, before it.

        It is as old as the near host's clock says; where another was measured since, that stays. Whose result is stored
        already has not failed for a list of links: what PerfDB does not take is logged.
        """
        link = around.after or around.before
        try:
            self._tell_when_measured(link)
        except InferBenchError as error:
            log.warning("the link from %s to %s is in no list: %s", link.near.host, link.far.host, error)

    def _tell_when_measured(self, link: MeasuredLink) -> None:
        self._tell(link, {"$min": ["$$NOW", datetime.fromisoformat(link.measured_at)]})

    def _tell(self, link: MeasuredLink, at: Any) -> None:
        key = {"near": link.near.home, "far": link.far.home, "address": link.far.address}
        newer = {"$lte": [{"$ifNull": ["$at", datetime.fromtimestamp(0, UTC)]}, at]}
        value = {"$cond": [newer, {"$literal": link.model_dump(mode="json")}, "$link"]}
        change = [{"$set": {"link": value, "at": {"$max": ["$at", at]}}}]
        self._do(lambda c: c.update_one({"_id": key}, change, upsert=True))

    def all(self) -> list[tuple[MeasuredLink, float]]:
        """Each with the seconds since it was measured, by the hosts' names; one that can't be read is left out."""
        dated = {"$eq": [{"$type": "$at"}, "date"]}
        age = {"$cond": [dated, {"$divide": [{"$subtract": ["$$NOW", "$at"]}, 1000]}, None]}
        documents = self._do(lambda c: list(c.aggregate([{"$set": {"age_s": age}}])))
        links = []
        for document in documents:
            try:
                links.append((MeasuredLink.model_validate(document["link"]), float(document["age_s"])))
            except (ValidationError, KeyError, TypeError) as error:
                reason = why(error) if isinstance(error, ValidationError) else str(error)
                skipped(f"The link {document['_id']} (collection {LINKS})", reason)
        return sorted(links, key=lambda entry: (entry[0].near.host, entry[0].far.host, entry[0].far.address))

    def _do(self, operation: Any) -> Any:
        return self.db.retrying(lambda: operation(self.db.collection(LINKS)), "the links", self.patience_s)
