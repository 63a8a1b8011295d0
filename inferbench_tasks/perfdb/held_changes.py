"""What became of the results since they were read, as MongoDB's change stream tells it, by whomever it was done."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pymongo.change_stream import CollectionChangeStream
from pymongo.collection import Collection
from pymongo.errors import OperationFailure, PyMongoError

#: MongoDB's code for a change stream of a server that is no replica set.
_STANDALONE = 40573
_WRITTEN = ("insert", "update", "replace")


@dataclass
class Told:
    """``written``: results as they are now, each with whether it is new; ``gone``: whether any was deleted, which the
    stream does not tell.
    """

    written: list[tuple[bool, dict[str, Any]]] = field(default_factory=list)
    gone: bool = False


class Changes:
    """Of a collection, from now on; of each document these paths."""

    def __init__(self, results: Collection[dict[str, Any]], paths: Iterable[str]) -> None:
        fields = {f"fullDocument.{path}": 1 for path in paths}
        self._stream = _watch(results, [{"$project": {"operationType": 1, **fields}}])
        self._process = os.getpid()

    def told(self) -> Told | None:
        """What happened since it was asked last; None where that is not known: then all has to be read again."""
        if self._stream is None or self._process != os.getpid() or not self._stream.alive:
            return None
        told = Told()
        try:
            while (change := self._stream.try_next()) is not None:
                kind = change["operationType"]
                if kind == "delete":
                    told.gone = True
                elif kind not in _WRITTEN:  # dropped, renamed
                    return None
                elif (document := change.get("fullDocument")) is None:  # changed, and deleted since
                    told.gone = True
                else:
                    told.written.append((kind == "insert", document))
        except PyMongoError:  # the server was away
            return None
        return told

    def close(self) -> None:
        """End it, in the process that began it."""
        if self._stream is not None and self._process == os.getpid():
            self._stream.close()


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
