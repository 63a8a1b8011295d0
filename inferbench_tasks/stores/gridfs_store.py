"""``gridfs:``: PerfDB itself, in a bucket of its own; what every host has that works for this PerfDB."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, ClassVar, TypeVar

import gridfs
from bson import ObjectId

from inferbench_tasks.cluster.clock import server_ms
from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.perfdb.file_ids import new_file_id
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import DEFAULT_URL, KEY, Missing, Store, Stored

BUCKET = "artifacts"
#: Of one document, which may have 16 MB.
CHUNK_BYTES = 4 << 20
T = TypeVar("T")


class GridFSStore(Store):
    """A file's name is the object's key. It is visible once its last chunk is stored."""

    of_one_perfdb: ClassVar[bool] = True

    def __init__(self, url: str, db: PerfDB) -> None:
        super().__init__(url, db)
        if url != DEFAULT_URL:
            raise InputError(f"{url!r}: PerfDB's own store is {DEFAULT_URL!r}, without anything behind it")

    def put(self, key: str, source: Path | bytes) -> None:
        size = len(source) if isinstance(source, bytes) else source.stat().st_size
        if self.size(key) == size:
            return
        self.db.require_room(size)
        began = self.db.now()
        tried: list[ObjectId] = []

        def upload() -> None:
            # A new id for each try; what an interrupted one left behind goes first.
            if tried:
                self._collection("chunks").delete_many({"files_id": {"$in": tried}})
            tried.append(new_file_id(began))
            with _opened(source) as stream:
                self._bucket().upload_from_stream_with_id(
                    tried[-1], key, stream, chunk_size_bytes=CHUNK_BYTES
                )

        try:
            self._do(upload, f"storing {key}")
        except OSError as error:
            raise StorageError(
                f"{source if isinstance(source, Path) else key} can't be read: {error}"
            ) from error
        if (stored := self._do(lambda: self._entry(key, tried[-1]), f"storing {key}")) is None or (
            stored["length"] != size
        ):
            self._do(lambda: self._bucket().delete(tried[-1]), f"deleting {key}")
            raise StorageError(f"What was stored as {key} changed meanwhile.")
        # Its date is by the clock of this host.
        stamp = {"$currentDate": {"stored_at": True}}
        self._do(lambda: self._collection("files").update_one({"_id": tried[-1]}, stamp), f"storing {key}")

    def size(self, key: str) -> int | None:
        entry = self._do(lambda: self._entry(key), f"finding {key}")
        return None if entry is None else int(entry["length"])

    def read(self, key: str, start: int = 0, length: int = -1) -> bytes:
        """Its chunks are read by their numbers: one that is missing or short shortens the answer."""

        def read() -> bytes:
            entry = self._entry(key)
            if entry is None:
                raise Missing(key)
            size = int(entry["length"])
            end = size if length < 0 else min(size, start + length)
            chunk = int(entry["chunkSize"])
            numbers = {"$gte": start // chunk, "$lt": -(-end // chunk)}
            rows = self._collection("chunks").find({"files_id": entry["_id"], "n": numbers}).sort("n", 1)
            parts: list[bytes] = []
            for number, row in enumerate(rows, start // chunk):
                if row["n"] != number:
                    break
                parts.append(row["data"])
            first = start - start // chunk * chunk
            return b"".join(parts)[first : first + max(0, end - start)]

        return self._do(read, f"reading {key}")

    def delete(self, key: str) -> None:
        def remove() -> None:
            for entry in list(self._collection("files").find({"filename": key}, {"_id": 1})):
                self._collection("files").delete_one(entry)
                self._collection("chunks").delete_many({"files_id": entry["_id"]})

        self._do(remove, f"deleting {key}")

    def objects(self) -> Iterator[Stored]:
        fields = {"filename": 1, "length": 1, "stored_at": 1}
        rows = self._do(lambda: list(self._collection("files").find({}, fields)), "listing artifacts")
        for row in rows:
            if KEY.fullmatch(row["filename"]):
                stored = row.get("stored_at") or row["_id"].generation_time  # of an earlier version
                yield Stored(row["filename"], int(row["length"]), stored.timestamp())

    def now_s(self) -> float:
        return server_ms(self.db) / 1000

    def tidy(self, grace_s: float) -> None:
        now_s = self.now_s()

        def remove() -> None:
            # The entries last: of what is complete by now, one was written while the content was read.
            found = set(self._collection("chunks").distinct("files_id"))
            for file_id in found - set(self._collection("files").distinct("_id")):
                if now_s - file_id.generation_time.timestamp() > grace_s:
                    self._collection("chunks").delete_many({"files_id": file_id})

        self._do(remove, "tidying artifacts")

    def _entry(self, key: str, file_id: ObjectId | None = None) -> dict[str, Any] | None:
        """Of several that were stored at once the first: they are the same."""
        where = {"filename": key} | ({"_id": file_id} if file_id else {})
        found: dict[str, Any] | None = self._collection("files").find_one(
            where, sort=[("uploadDate", 1), ("_id", 1)]
        )
        return found

    def _bucket(self) -> gridfs.GridFSBucket:
        return gridfs.GridFSBucket(self._collection("files").database, bucket_name=BUCKET)

    def _collection(self, part: str) -> Any:
        return self.db.collection(f"{BUCKET}.{part}")

    def _do(self, operation: Callable[[], T], doing: str) -> T:
        return self.db.retrying(operation, doing)


def _opened(source: Path | bytes) -> IO[bytes]:
    return io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb")
