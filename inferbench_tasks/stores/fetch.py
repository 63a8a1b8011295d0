"""An artifact from a store into this host's cache: once, whole, and exactly what it says.

Small files come whole, several at once; then large ones, one after the other, their parts by several threads, with a
journal of those that are there. What was cut off goes on where it was. Each file's SHA-256 is taken as it arrives; one
that is another is fetched again, once. The folder appears by one rename.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from inferbench_tasks.artifacts.cache import MANIFEST
from inferbench_tasks.artifacts.no_room import write_down
from inferbench_tasks.errors import CancelledError, StorageError
from inferbench_tasks.stores.base import BLOBS, MANIFESTS, Missing, Store
from inferbench_tasks.stores.holdings import FETCHED, Holding, Holdings
from inferbench_tasks.stores.manifest import MAX_MANIFEST_BYTES, FileEntry, Manifest
from inferbench_tasks.stores.parts import ROOM, lock_of, parts_of, promise, promised_bytes, written_bytes
from inferbench_tasks.stores.several import SMALL_BYTES, several

#: So many parts come at once, each so large.
THREADS, PART_BYTES = 4, 16 << 20
#: Left free beside what is fetched.
SPARE_BYTES = 64 << 20
#: How often who waits for another process of this host looks whether it has ended.
LOOK_S = 0.2


class Damaged(Exception):
    """The store's object is not what its key says; ``key``."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(what)
        self.key = key


@dataclass(frozen=True)
class Fetch:
    """``told(bytes, total)``: progress; ``report(what)``: a damaged copy was found. ``room(bytes)`` makes some."""

    store: Store
    holdings: Holdings
    told: Callable[[int, int], None] = lambda done, total: None
    report: Callable[[str], None] = lambda what: None
    cancelled: Callable[[], bool] = lambda: False
    room: Callable[[int], None] = lambda needed: None
    part_bytes: int = PART_BYTES
    threads: int = field(default=THREADS)

    def __call__(self, digest: str) -> Holding:
        """The artifact in this host's cache. Raises Missing, Damaged, StorageError, PerfDBError, CancelledError."""
        root = self.holdings.data_dir / FETCHED
        try:
            root.mkdir(parents=True, exist_ok=True)
            with self._alone(lock_of(parts_of(root, digest))):
                if holding := self.holdings.find(digest):  # somebody else brought it meanwhile
                    return holding
                return self._fetch(digest, root)
        except OSError as error:
            raise StorageError(f"The cache {root} can't be written: {error.strerror or error}") from error

    @contextlib.contextmanager
    def _alone(self, lock: FileLock) -> Iterator[None]:
        """Hold a lock as soon as no other process of this host does; one that ended, however it did, holds none."""
        try:
            lock.acquire(poll_interval=LOOK_S, cancel_check=self.cancelled)
        except Timeout as timeout:
            raise CancelledError(
                "Cancelled while another process of this host fetched an artifact."
            ) from timeout
        try:
            yield
        finally:
            lock.release()

    def _fetch(self, digest: str, root: Path) -> Holding:
        key = f"{MANIFESTS}/{digest}"
        if (self.store.size(key) or 0) > MAX_MANIFEST_BYTES:  # not read: it would fill this host's memory
            raise Damaged(key, f"its manifest in {self.store.url} is larger than any may be")
        content = self.store.read(key)
        try:
            manifest = Manifest.read(content, digest)
        except StorageError as error:
            raise Damaged(key, str(error)) from error
        parts = parts_of(root, digest)
        if (root / digest).exists():  # what find() would not have: damaged, or without a record
            self._reuse(root / digest, manifest, parts)
        parts.mkdir(exist_ok=True)
        self._make_room(manifest, parts)
        self._blobs(manifest, parts)
        return self._place(manifest, parts, root / digest)

    def _reuse(self, folder: Path, manifest: Manifest, parts: Path) -> None:
        """Of a folder that is not whole what still is right; the rest is reported."""
        parts.mkdir(exist_ok=True)
        for file in manifest.files:
            path = folder / file.name
            if path.is_symlink() or not path.is_file() or _sha256(path) != file.sha256:
                self.report(f"{file.name} in the cache was damaged or missing; fetched again")
            elif not (parts / file.sha256).exists():
                os.replace(path, parts / file.sha256)
                _journal(parts, file.sha256).write_text("whole\n")
        shutil.rmtree(folder)

    def _make_room(self, manifest: Manifest, parts: Path) -> None:
        """Promise the artifact its room, less what others here were promised and have not written yet."""
        with self._alone(FileLock(parts.parent / ROOM)):
            others = promised_bytes(parts.parent, besides=parts)
            needed = max(0, manifest.total_bytes - written_bytes(parts))
            self.room(needed + others)
            free = shutil.disk_usage(parts).free
            if free - others < needed + SPARE_BYTES:
                write_down(self.holdings.data_dir, needed + SPARE_BYTES)
                raise StorageError(
                    f"{needed / 1e6:,.0f} MB of an artifact have no room on the file system of {parts.parent}: "
                    f"{free / 1e6:,.0f} MB are free, less {others / 1e6:,.0f} MB of others that are being "
                    "fetched. Free some (`inferbench clean`), or choose another data directory."
                )
            promise(parts, manifest.total_bytes)

    def _blobs(self, manifest: Manifest, parts: Path) -> None:
        files = list({file.sha256: file for file in manifest.files}.values())
        total = sum(file.bytes for file in files)
        limit = min(SMALL_BYTES, self.part_bytes)
        done = 0

        def arrived(file: FileEntry) -> None:
            nonlocal done
            done += file.bytes
            self.told(done, total)
            self._end_if_cancelled()

        several(
            lambda file: self._once_more(file, parts, lambda: self._small(file, parts)),
            [file for file in files if file.bytes <= limit],
            arrived,
        )
        with ThreadPoolExecutor(self.threads, thread_name_prefix="artifact") as pool:
            for file in files:
                if file.bytes > limit:
                    self._once_more(file, parts, partial(self._large, file, parts, pool, done, total))
                    done += file.bytes

    def _end_if_cancelled(self) -> None:
        if self.cancelled():
            raise CancelledError("Cancelled while an artifact was fetched.")

    def _once_more(self, file: FileEntry, parts: Path, bring: Callable[[], bool]) -> None:
        """Bring a file's content, and if it comes damaged a second time."""
        if bring():
            return
        self.report(f"{file.name} came damaged from {self.store.url}; fetched again")
        _discard(parts, file.sha256)
        if not bring():
            _discard(parts, file.sha256)
            raise Damaged(f"{BLOBS}/{file.sha256}", f"{file.name} in {self.store.url} is damaged")

    def _small(self, file: FileEntry, parts: Path) -> bool:
        """Bring all of a file's content in one piece; whether it is what it should be."""
        path = parts / file.sha256
        if path.is_file() and path.stat().st_size == file.bytes and _sha256(path) == file.sha256:
            return True
        content = self.store.read(f"{BLOBS}/{file.sha256}", 0, file.bytes + 1)
        if len(content) != file.bytes or hashlib.sha256(content).hexdigest() != file.sha256:
            return False
        _discard(parts, file.sha256)
        path.write_bytes(content)
        return True

    def _large(self, file: FileEntry, parts: Path, pool: ThreadPoolExecutor, before: int, total: int) -> bool:
        """Bring a file's content in parts, of which the journal tells; whether it is what it should be."""
        key, path = f"{BLOBS}/{file.sha256}", parts / file.sha256
        size = self.store.size(key)
        if size is None:
            raise Missing(key)
        if size != file.bytes:
            return False
        journal = _journal(parts, file.sha256)
        there = set(journal.read_text().split()) if journal.exists() and path.exists() else set()
        if not there:
            _discard(parts, file.sha256)
            with open(path, "xb") as empty:
                empty.truncate(file.bytes)
        starts = range(0, file.bytes, self.part_bytes)
        digest = hashlib.sha256()
        with open(path, "r+b") as target, open(journal, "a") as written:
            futures: list[tuple[int, Future[bool] | None]] = []
            for start in starts:
                length = min(self.part_bytes, file.bytes - start)
                known = "whole" in there or f"{start}+{length}" in there
                futures.append(
                    (start, None if known else pool.submit(self._part, key, target.fileno(), start, length))
                )
            try:
                for start, future in futures:
                    length = min(self.part_bytes, file.bytes - start)
                    if future is not None:
                        if not future.result():
                            return False
                        written.write(f"{start}+{length}\n")
                        written.flush()
                    self._end_if_cancelled()
                    for block in _blocks(target.fileno(), start, length):
                        digest.update(block)
                    self.told(before + start + length, total)
            finally:
                for _, future in futures:
                    if future is not None:
                        future.cancel()
                for _, future in futures:  # none may write into a file that is closed
                    if future is not None and not future.cancelled():
                        with contextlib.suppress(Exception):
                            future.exception()
        return digest.hexdigest() == file.sha256

    def _part(self, key: str, target: int, start: int, length: int) -> bool:
        content = self.store.read(key, start, length)
        if len(content) != length:
            return False
        view = memoryview(content)
        while view:
            count = os.pwrite(target, view, start)
            view, start = view[count:], start + count
        return True

    def _place(self, manifest: Manifest, parts: Path, folder: Path) -> Holding:
        """The files under their names, by one rename; what has one content is one file."""
        made = parts / "made"
        shutil.rmtree(made, ignore_errors=True)
        for file in manifest.files:
            target = made / file.name
            target.parent.mkdir(parents=True, exist_ok=True)
            source = parts / file.sha256
            if source.stat().st_mode & 0o777 == file.mode:
                os.link(source, target)
            elif source.stat().st_nlink == 1:
                source.chmod(file.mode)
                os.link(source, target)
            else:  # another name of it, with another mode
                shutil.copyfile(source, target)
                target.chmod(file.mode)
        about = {"settings": {"artifact": manifest.digest}, "facts": {}, "files": manifest.digests}
        (made / MANIFEST).write_text(json.dumps(about, indent=1))
        several(_sync, [path for path in made.rglob("*") if path.is_file()])
        os.replace(made, folder)
        shutil.rmtree(parts)
        holding = Holding(folder, manifest)
        self.holdings.enter(holding)
        return holding


def _journal(parts: Path, sha256: str) -> Path:
    return parts / f"{sha256}.parts"


def _discard(parts: Path, sha256: str) -> None:
    (parts / sha256).unlink(missing_ok=True)
    _journal(parts, sha256).unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    with open(path, "rb") as written:
        os.fsync(written.fileno())


def _blocks(descriptor: int, start: int, length: int) -> Iterator[bytes]:
    end = start + length
    while start < end:
        block = os.pread(descriptor, min(1 << 20, end - start), start)
        if not block:
            return
        start += len(block)
        yield block
