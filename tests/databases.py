"""Databases of one server that tests take in turn: making one, with its indexes, takes longer than most tests."""

from __future__ import annotations

import uuid
from collections import deque

from inferbench_tasks.perfdb import clients, indexes
from inferbench_tasks.perfdb.address import database_of, with_database

#: So many lie aside before one is taken again: what a test left running writes where no test looks.
ASIDE = 3


class Databases:
    """Those of one process of tests. Whoever takes one has it alone, empty, with PerfDB's own indexes or none."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._used: deque[str] = deque()

    def take(self, *, new: bool = False) -> str:
        """Its URI, which nobody had before: what a process keeps of a database it keeps by that. ``new``: one that
        nobody had before either, in which nothing was ever made.
        """
        while not new and len(self._used) > ASIDE:
            name = self._used.popleft()
            if self._emptied(name):
                return self._uri(name)
            self._drop(name)
        return self._uri(f"inferbench_test_{uuid.uuid4().hex[:12]}")

    def give_back(self, uri: str) -> None:
        """It is emptied when it is taken again."""
        clients.forget(uri)
        self._used.append(database_of(uri))

    def drop(self) -> None:
        """All that nobody has now."""
        while self._used:
            self._drop(self._used.popleft())

    def _uri(self, name: str) -> str:
        uri = with_database(self._server, name)
        return f"{uri}{'&' if '?' in uri else '?'}appName={uuid.uuid4().hex}"

    def _emptied(self, name: str) -> bool:
        """Whether it is as PerfDB makes one; False where it was never opened, or has other indexes."""
        database = clients.client(self._server).get_database(name)
        there, own = set(database.list_collection_names()), indexes.indexes()
        if not own.keys() <= there:
            return False
        for collection in there - own.keys():
            database.drop_collection(collection)
        for collection, models in own.items():
            names = {"_id_", *(model.document["name"] for model in models)}
            if database[collection].index_information().keys() != names:
                return False
            if database[collection].find_one({}, {"_id": 1}) is not None:
                database[collection].delete_many({})
        return True

    def _drop(self, name: str) -> None:
        clients.client(self._server).drop_database(name)
