"""Backup and restore of a whole PerfDB: all that was measured, GridFS's files included, as one compressed archive.

The archive is a tar of ``<collection>.bson`` members (documents one after the other, as MongoDB's own tools write
them; ``bsondump`` reads them) and ``manifest.json`` with counts and SHA-256 of each member. A restore checks all of
it before it writes anything, and writes into an empty database only.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bson import decode_file_iter
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument

from inferbench_tasks.errors import InputError, PerfDBError, StorageError
from inferbench_tasks.perfdb import deletions, indexes
from inferbench_tasks.perfdb.documents import utc_now
from inferbench_tasks.perfdb.store import PerfDB

MANIFEST = "manifest.json"
FORM = "inferbench-perfdb-1"
#: The cluster as it is at this moment, which its workers and its scheduler write anew all the time: it belongs to the
#: system that runs, so a backup has none of it, and a system that runs already counts as empty.
MOMENTARY = frozenset({"devices", "waiting_jobs", "hosts", "leader", "links"})
#: In no archive, and of none restored: deletions that were killed are of the results that were there, and would take
#: those that are there again. A database that holds some is not empty.
NOT_KEPT = MOMENTARY | {deletions.COLLECTION}
#: Documents and bytes written at once.
BATCH, BATCH_BYTES = 1000, 16 << 20
_RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


def backup(db: PerfDB, path: Path) -> dict[str, int]:
    """Write the archive; collection -> documents. It appears under its name when it is complete.

    Documents are read while others may write: a run that ends meanwhile may be in it or not, but results are
    written after their files and read before them, so none lacks its samples. Raises StorageError, PerfDBError.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    members: dict[str, dict[str, Any]] = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(partial, "w:gz", compresslevel=3) as archive:
            for name in _names(db, NOT_KEPT):
                with tempfile.TemporaryFile(dir=path.parent) as spool:
                    members[name] = _dump(db, name, spool)
                    spool.seek(0)
                    _add(archive, f"{name}.bson", spool, members[name]["bytes"])
            manifest = {"form": FORM, "made_at": utc_now().isoformat(), "members": members}
            text = json.dumps(manifest, indent=1).encode()
            _add(archive, MANIFEST, io.BytesIO(text), len(text))
        os.replace(partial, path)
    except OSError as error:
        raise StorageError(f"{path} can't be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)
    return {name: member["documents"] for name, member in members.items()}


def restore(db: PerfDB, path: Path) -> dict[str, int]:
    """Fill an empty PerfDB from an archive; collection -> documents.

    Raises InputError where the database holds documents already or the file is no such archive, and
    PerfDBError where the archive is damaged; in both cases nothing was written.
    """
    counts = {name: db.collection(name).estimated_document_count() for name in _names(db, MOMENTARY)}
    if full := {name: count for name, count in counts.items() if count}:
        raise InputError(
            f"The PerfDB is not empty ({', '.join(f'{n}: {c}' for n, c in full.items())}); restore into an "
            "empty one: another database name in the URI, or another data directory."
        )
    try:
        with tarfile.open(path, "r:gz") as archive:
            manifest = _check(archive, path)
            members = {
                name: manifest["members"][name]
                for name in sorted(manifest["members"], key=_turn)
                if name not in NOT_KEPT
            }
            for name, member in members.items():
                written = _load(db, name, _member(archive, f"{name}.bson", path))
                if written != member["documents"]:
                    raise PerfDBError(
                        f"{path}: {name}: {written} of {member['documents']} documents were written."
                    )
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(f"{path} can't be read as a backup: {error}") from error
    indexes.ensure(db.collection("results").database)
    return {name: member["documents"] for name, member in members.items()}


def _names(db: PerfDB, without: frozenset[str]) -> list[str]:
    """Results first, the files that they name last."""
    names = db.retrying(db.collection("results").database.list_collection_names, "listing the collections")
    kept_names = [name for name in names if not name.startswith("system.") and name not in without]
    return sorted(kept_names, key=lambda name: (name.startswith("fs."), name))


def _turn(name: str) -> tuple[bool, bool, str]:
    """Of a restore: files behind the documents that name them, and contents last. A system that runs already removes a
    file that nothing names, and content without its file's entry.
    """
    return name.startswith("fs."), name.endswith(".chunks"), name


def _dump(db: PerfDB, name: str, spool: IO[bytes]) -> dict[str, Any]:
    digest, size, count = hashlib.sha256(), 0, 0
    for document in db.collection(name).with_options(codec_options=_RAW).find(sort=[("_id", 1)]):
        raw = document.raw
        spool.write(raw)
        digest.update(raw)
        size, count = size + len(raw), count + 1
    return {"documents": count, "bytes": size, "sha256": digest.hexdigest()}


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    archive.addfile(entry, content)


def _check(archive: tarfile.TarFile, path: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.load(_member(archive, MANIFEST, path))
    if manifest.get("form") != FORM:
        raise InputError(
            f"{path} is no backup of a PerfDB (form {manifest.get('form')!r}, expected {FORM!r})."
        )
    for name, member in manifest["members"].items():
        digest = hashlib.sha256()
        content = _member(archive, f"{name}.bson", path)
        while block := content.read(1 << 20):
            digest.update(block)
        if digest.hexdigest() != member["sha256"]:
            raise PerfDBError(f"{path} is damaged: {name} is not what was written.")
    return manifest


def _member(archive: tarfile.TarFile, name: str, path: Path) -> IO[bytes]:
    try:
        member = archive.extractfile(name)
    except KeyError:
        member = None
    if member is None:
        raise InputError(f"{path} is no backup of a PerfDB: it has no {name}.")
    return member


def _load(db: PerfDB, name: str, content: IO[bytes]) -> int:
    collection = db.collection(name).with_options(codec_options=_RAW)
    written = 0
    for batch in _batches(content):
        collection.insert_many(batch, ordered=False)
        written += len(batch)
    return written


def _batches(content: IO[bytes]) -> Iterator[list[RawBSONDocument]]:
    batch: list[RawBSONDocument] = []
    size = 0
    for document in decode_file_iter(content, codec_options=_RAW):
        batch.append(document)
        size += len(document.raw)
        if len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
