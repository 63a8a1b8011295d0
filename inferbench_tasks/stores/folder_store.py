"""``file:///folder``: a folder, of this machine or one that hosts share.

Contents are copied, never linked: a file that two hosts' caches share could be damaged for both by one of them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from inferbench_tasks.errors import InputError, StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import KEY, KINDS, MANIFESTS, OWNERS, Missing, Store, Stored

_PART = ".part-"


class FolderStore(Store):
    """``<folder>/blobs/<sha256>``, ``<folder>/manifests/<digest>``, ``<folder>/owners/<id>``."""

    def __init__(self, url: str, db: PerfDB) -> None:
        super().__init__(url, db)
        parts = urlsplit(url)
        if parts.netloc or not parts.path.startswith("/") or parts.query or parts.fragment:
            raise InputError(f"{url!r} is no folder; write file:///absolute/path")
        self.folder = Path(unquote(parts.path))

    def put(self, key: str, source: Path | bytes) -> None:
        path = self._path(key)
        with self._explained():
            if self.size(key) == (len(source) if isinstance(source, bytes) else source.stat().st_size):
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=_PART, dir=path.parent)
            try:
                os.close(handle)
                if isinstance(source, bytes):
                    Path(name).write_bytes(source)
                else:
                    shutil.copyfile(source, name)
                with open(name, "rb") as file:
                    os.fsync(file.fileno())
                os.replace(name, path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    def size(self, key: str) -> int | None:
        with self._explained():
            try:
                return self._path(key).stat().st_size
            except FileNotFoundError:
                return None

    def read(self, key: str, start: int = 0, length: int = -1) -> bytes:
        with self._explained():
            try:
                with open(self._path(key), "rb") as file:
                    file.seek(start)
                    return file.read(length)
            except FileNotFoundError as error:
                raise Missing(key) from error

    def delete(self, key: str) -> None:
        with self._explained():
            self._path(key).unlink(missing_ok=True)

    def objects(self) -> Iterator[Stored]:
        for kind in KINDS:
            yield from self._of_kind(kind)

    def owners(self) -> Iterator[Stored]:
        return self._of_kind(OWNERS)

    def now_s(self) -> float:
        """What a file that is made there now has: a folder of another host has that host's clock."""
        place = self.folder / MANIFESTS
        with self._explained():
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(prefix=_PART, dir=place) as file:
                file.write(b"now")
                file.flush()
                return os.fstat(file.fileno()).st_mtime

    def tidy(self, grace_s: float) -> None:
        now_s = self.now_s()
        for kind in KINDS:
            for path in self._listed(kind):
                with contextlib.suppress(FileNotFoundError):
                    if path.name.startswith(_PART) and now_s - path.stat().st_ctime > grace_s:
                        path.unlink()

    def _of_kind(self, kind: str) -> Iterator[Stored]:
        for path in self._listed(kind):
            key = f"{kind}/{path.name}"
            if KEY.fullmatch(key):
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    status = path.stat()
                    yield Stored(key, status.st_size, status.st_mtime)

    def _listed(self, kind: str) -> list[Path]:
        with self._explained():
            try:
                return sorted((self.folder / kind).iterdir())
            except FileNotFoundError:
                return []

    def _path(self, key: str) -> Path:
        assert KEY.fullmatch(key), key
        return self.folder / key

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(
                f"The artifact store {self.url} can't be used: {error.strerror or error}"
            ) from error
