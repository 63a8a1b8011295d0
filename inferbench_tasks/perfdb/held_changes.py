"""What became of the results since they were read, as MongoDB's change stream tells it, by whomever it was done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pymongo.change_stream import CollectionChangeStream
from pymongo.collection import Collection
from pymongo.errors import OperationFailure, PyMongoError

#: MongoDB's code for a change stream of a server that is no replica set.
_STANDALONE = 40573
_WRITTEN = ("insert", "update", "replace")
#: What a result is given before it is deleted: the stream tells which document went by no name that anybody knows.
LEAVING = "extensions.leaving"
Name = tuple[str, int]


@dataclass
class Told:
    """``now``: run and attempt -> the result as it is now, None where it was deleted. ``others``: more were, by
    somebody who did not say which (``LEAVING``).
    """

    now: dict[Name, dict[str, Any] | None] = field(default_factory=dict)
    others: bool = False


class Changes:
    """Of a collection, from now on; of each document these paths."""

    def __init__(self, results: Collection[dict[str, Any]], paths: Iterable[str]) -> None:
        fields = {f"fullDocument.{path}": 1 for path in paths}
        told = {"operationType": 1, "documentKey": 1, "updateDescription.updatedFields": 1}
        self._stream = _watch(results, [{"$project": told | fields}])
        self._process = os.getpid()
        self._leaving: dict[Any, Name] = {}

    def told(self) -> Told | None:
        """What happened since it was asked last; None where that is not known: then all has to be read again."""
        if self._stream is None or self._process != os.getpid() or not self._stream.alive:
            return None
        told = Told()
        try:
            while (change := self._stream.try_next()) is not None:
                if not self._take(change, told):
                    return None
        except PyMongoError:  # the server was away
            return None
        return told

    def _take(self, change: Mapping[str, Any], told: Told) -> bool:
        """False for what no single result tells: dropped, renamed."""
        kind, document = change["operationType"], change.get("fullDocument")
        if kind == "delete":
            if (name := self._leaving.pop(change["documentKey"]["_id"], None)) is None:
                told.others = True
            else:
                told.now[name] = None
            return True
        if kind not in _WRITTEN:
            return False
        if document is not None:
            told.now[document["run_id"], document["attempt"]] = document
        if leaves := _leaves((change.get("updateDescription") or {}).get("updatedFields", {})):
            self._leaving[change["documentKey"]["_id"]] = (leaves["run_id"], leaves["attempt"])
        elif document is None:  # changed, and deleted since
            told.others = True
        return True

    def close(self) -> None:
        """End it, in the process that began it."""
        if self._stream is not None and self._process == os.getpid():
            self._stream.close()


def _leaves(updated: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Which result is about to go; the mark stands under its own path, or under the field that it made."""
    above, name = LEAVING.split(".")
    leaves: Mapping[str, Any] | None = updated.get(LEAVING) or (updated.get(above) or {}).get(name)
    return leaves


def _watch(
    results: Collection[dict[str, Any]], pipeline: list[dict[str, Any]]
) -> CollectionChangeStream[dict[str, Any]] | None:
    """None where the server tells of no changes: then each answer reads everything."""
    try:
        # What was changed comes whole, as it is when it is asked for.
        return results.watch(pipeline, full_document="updateLookup", max_await_time_ms=1)
    except OperationFailure as error:
        if error.code != _STANDALONE:
            raise
        return None
