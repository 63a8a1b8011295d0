"""Files in PerfDB (GridFS): stored with their SHA-256, which is checked whenever one is read."""

from __future__ import annotations

import hashlib
import os
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import gridfs
from bson import ObjectId
from bson.errors import InvalidId

from inferbench_tasks.errors import InputError, PerfDBError, StorageError
from inferbench_tasks.perfdb.file_ids import least_file_id, new_file_id
from inferbench_tasks.perfdb.values import Attachment, to_stored

if TYPE_CHECKING:
    from inferbench_tasks.perfdb.session import Session

BLOCK_BYTES = 1 << 20
CHUNK_BYTES = 255 * 1024 * 4
_AT_ONCE = 1000


class Files:
    """What is too big for a document: raw samples, reports, logs, model files."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def put(self, source: Path | bytes, name: str, **about: Any) -> Attachment:
        """Store a file under a new id; ``about`` (who it belongs to) is kept with it.

        Raises StorageError if the file can't be read.
        """
        digest, size = measure(source)
        about = {**to_stored(about), "sha256": digest}

        self._session.require_room(size)
        began = self._session.moment().at
        tried: list[ObjectId] = []

        def upload() -> ObjectId:
            # A new id for each try; what an interrupted one left behind goes first.
            bucket, file_id = self._bucket(), new_file_id(began)
            if tried:  # the entry too: one may have been written whole, and its answer lost
                self._session.database()["fs.files"].delete_many({"_id": {"$in": tried}})
                self._session.database()["fs.chunks"].delete_many({"files_id": {"$in": tried}})
            tried.append(file_id)
            try:
                with _opened(source) as stream:
                    bucket.upload_from_stream_with_id(
                        file_id, name, stream, chunk_size_bytes=CHUNK_BYTES, metadata=about
                    )
            except OSError as error:
                raise _unreadable(source, error) from error
            return file_id

        file_id = self._session.retrying(upload, f"storing {name}")
        stored = Attachment(id=str(file_id), name=name, sha256=digest, bytes=size)
        length = self._session.retrying(lambda: self._entry(stored.id)["length"], f"storing {name}")
        if length != size:
            self.delete(stored.id)
            raise StorageError(f"{name} changed while it was stored ({size} bytes, then {length}).")
        return stored

    def get(self, file: Attachment | str) -> bytes:
        """The content; raises PerfDBError if it is missing or not what was stored."""
        file_id = file if isinstance(file, str) else file.id

        def download() -> bytes:
            try:
                content: bytes = self._bucket().open_download_stream(_object_id(file_id)).read()
            except gridfs.errors.NoFile as error:
                raise PerfDBError(f"PerfDB has no file {file_id}.") from error
            except gridfs.errors.CorruptGridFile as error:
                raise PerfDBError(f"The file {file_id} in PerfDB is damaged: {error}.") from error
            return content

        content = self._session.retrying(download, f"reading file {file_id}")
        expected = self._entry(file_id)["metadata"]["sha256"] if isinstance(file, str) else file.sha256
        if (digest := hashlib.sha256(content).hexdigest()) != expected:
            raise PerfDBError(
                f"The file {file_id} in PerfDB is damaged: its SHA-256 is {digest}, stored was {expected}."
            )
        return content

    def spooled(self, file: Attachment) -> IO[bytes]:
        """The content as a temporary file on the disk, at its start: for what may be larger than fits in memory.

        It is gone once it is closed. Raises PerfDBError if the file is missing or not what was stored, StorageError
        if there is no room for it.
        """
        spool = tempfile.TemporaryFile(prefix="inferbench-file-")  # noqa: SIM115 - the caller closes it

        def download() -> str:
            digest = hashlib.sha256()
            spool.seek(0)
            spool.truncate()
            try:
                stream = self._bucket().open_download_stream(_object_id(file.id))
                while block := stream.read(BLOCK_BYTES):
                    digest.update(block)
                    spool.write(block)
            except gridfs.errors.NoFile as error:
                raise PerfDBError(f"PerfDB has no file {file.id}.") from error
            except gridfs.errors.CorruptGridFile as error:
                raise PerfDBError(f"The file {file.id} in PerfDB is damaged: {error}.") from error
            except OSError as error:
                raise StorageError(
                    f"No room for {file.name} in {tempfile.gettempdir()}: {error.strerror}. Free some, or set TMPDIR."
                ) from error
            return digest.hexdigest()

        try:
            if (digest := self._session.retrying(download, f"reading file {file.id}")) != file.sha256:
                raise PerfDBError(
                    f"The file {file.id} in PerfDB is damaged: its SHA-256 is {digest}, stored was {file.sha256}."
                )
        except BaseException:
            spool.close()
            raise
        spool.seek(0)
        return spool

    def save_to(self, file: Attachment | str, path: Path) -> Path:
        """Write the content to a file, which appears only when it is complete."""
        content = self.get(file)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
            os.replace(temporary, path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StorageError(f"{path} can't be written: {error.strerror}") from error
        return path

    def delete(self, file: Attachment | str) -> None:
        """Remove a file; harmless if it is gone already."""
        file_id = _object_id(file if isinstance(file, str) else file.id)

        def remove() -> None:
            try:
                self._bucket().delete(file_id)
            except gridfs.errors.NoFile:
                return

        self._session.retrying(remove, f"deleting file {file_id}")

    def delete_of(self, file_id: str, run_id: str, attempt: int | None = None) -> bool:
        """Remove a file that was stored with this run's id (and as this attempt's, where one is named); False where
        there is none: another's stays, whoever names it. Raises InputError for what is no id.
        """
        whose = {"metadata.run_id": run_id, **({} if attempt is None else {"metadata.attempt": attempt})}
        one = {"_id": _object_id(file_id), **whose}

        def remove() -> bool:
            database = self._session.database()
            if database["fs.files"].find_one(one, {"_id": 1}) is None:
                return False
            # The entry last, which says whose the content is: what is killed in between can be repeated.
            database["fs.chunks"].delete_many({"files_id": one["_id"]})
            database["fs.files"].delete_one(one)
            return True

        return self._session.retrying(remove, f"deleting file {file_id}")

    def delete_unfinished(self, older_than_s: float) -> int:
        """Remove what storing left behind that never ended (its process was killed); of how many files.

        A file's entry is written behind its content, so content without one, begun so long ago by PerfDB's clock, is
        nobody's.
        """
        oldest = least_file_id(self._session.moment().at - timedelta(seconds=older_than_s))

        def remove() -> int:
            database = self._session.database()
            begun: list[dict[str, Any]] = [
                {"$match": {"files_id": {"$lt": oldest}}},
                {"$group": {"_id": "$files_id"}},
            ]
            # The entries last: of what is complete by now, one was written while the content was read.
            found = [each["_id"] for each in database["fs.chunks"].aggregate(begun)]
            whole = {
                entry["_id"] for entry in database["fs.files"].find({"_id": {"$lt": oldest}}, {"_id": 1})
            }
            left = [file_id for file_id in found if file_id not in whole]
            for first in range(0, len(left), _AT_ONCE):
                database["fs.chunks"].delete_many({"files_id": {"$in": left[first : first + _AT_ONCE]}})
            return len(left)

        return self._session.retrying(remove, "deleting what was stored in part")

    def _bucket(self) -> gridfs.GridFSBucket:
        return gridfs.GridFSBucket(self._session.database())

    def _entry(self, file_id: str) -> dict[str, Any]:
        entry = self._session.database()["fs.files"].find_one({"_id": _object_id(file_id)})
        if entry is None:
            raise PerfDBError(f"PerfDB has no file {file_id}.")
        return entry


def _object_id(file_id: str) -> ObjectId:
    try:
        return ObjectId(file_id)
    except (InvalidId, TypeError) as error:
        raise InputError(f"{file_id!r} is no id of a file in PerfDB (24 hex digits).") from error


def _unreadable(source: Path | bytes, error: OSError) -> StorageError:
    return StorageError(f"{error.filename or type(source).__name__} can't be read: {error.strerror}")


def _opened(source: Path | bytes) -> IO[bytes]:
    if isinstance(source, bytes):
        import io

        return io.BytesIO(source)
    return open(source, "rb")


def measure(source: Path | bytes) -> tuple[str, int]:
    """SHA-256 (hex) and size in bytes."""
    digest, size = hashlib.sha256(), 0
    try:
        with _opened(source) as stream:
            while block := stream.read(BLOCK_BYTES):
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise _unreadable(source, error) from error
    return digest.hexdigest(), size
