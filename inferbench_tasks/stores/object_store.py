"""``s3://bucket/folder`` and ``gs://bucket/folder``: object stores, by fsspec.

Who may do what there, and where an S3 server other than Amazon's answers, is said as its clients have it
(``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``; ``GOOGLE_APPLICATION_CREDENTIALS``).
"""

from __future__ import annotations

import contextlib
import importlib.util
import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from inferbench_tasks.errors import InputError, MissingExtraError, StorageError
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.stores.base import KEY, OWNERS, Missing, Store, Stored


class ObjectStore(Store):
    """An object is there once its upload is complete, which these stores see to."""

    extra: ClassVar[str | None] = "objects"

    def __init__(self, url: str, db: PerfDB) -> None:
        super().__init__(url, db)
        parts = urlsplit(url)
        if not parts.netloc or parts.query or parts.fragment or "@" in parts.netloc:
            raise InputError(
                f"{url!r} names no bucket; write {parts.scheme}://bucket/folder, without a login in it"
            )
        import fsspec

        self._root = f"{parts.netloc}{parts.path}".rstrip("/")
        with self._explained():
            self._files: Any = fsspec.filesystem(
                parts.scheme, use_listings_cache=False, skip_instance_cache=True
            )

    def put(self, key: str, source: Path | bytes) -> None:
        if self.size(key) == (len(source) if isinstance(source, bytes) else source.stat().st_size):
            return
        with self._explained():
            if isinstance(source, bytes):
                self._files.pipe_file(self._path(key), source)
            else:
                self._files.put_file(str(source), self._path(key))

    def size(self, key: str) -> int | None:
        with self._explained():
            try:
                return int(self._files.info(self._path(key))["size"])
            except FileNotFoundError:
                return None

    def read(self, key: str, start: int = 0, length: int = -1) -> bytes:
        size = self.size(key)
        if size is None:
            raise Missing(key)
        end = size if length < 0 else min(size, start + length)
        if start >= end:
            return b""
        with self._explained():
            try:
                return bytes(self._files.cat_file(self._path(key), start=start, end=end))
            except FileNotFoundError as error:
                raise Missing(key) from error

    def delete(self, key: str) -> None:
        with self._explained(), contextlib.suppress(FileNotFoundError):
            self._files.rm_file(self._path(key))

    def objects(self) -> Iterator[Stored]:
        return self._below(self._root)

    def owners(self) -> Iterator[Stored]:
        return self._below(f"{self._root}/{OWNERS}")

    def _below(self, folder: str) -> Iterator[Stored]:
        with self._explained():
            try:
                found = self._files.find(folder, detail=True)
            except FileNotFoundError:
                return
        for path, about in found.items():
            key = path.removeprefix(f"{self._root}/")
            if KEY.fullmatch(key):
                yield Stored(key, int(about["size"]), _changed_s(about))

    def now_s(self) -> float:
        """What an object that is stored now has."""
        path = f"{self._root}/.now-{uuid.uuid4().hex}"
        with self._explained():
            self._files.pipe_file(path, b"now")
            about = self._files.info(path)
            self._files.rm_file(path)
        return _changed_s(about)

    def _path(self, key: str) -> str:
        assert KEY.fullmatch(key), key
        return f"{self._root}/{key}"

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Clients of object stores raise what they like; FileNotFoundError means what it says."""
        try:
            yield
        except (FileNotFoundError, Missing):
            raise
        except Exception as error:  # of any package: the message names it
            raise StorageError(
                f"The artifact store {self.url} can't be used: {type(error).__name__}: {error}"
            ) from error


def _changed_s(about: dict[str, Any]) -> float:
    changed: datetime = about.get("LastModified") or about["mtime"]
    return changed.timestamp()


class GoogleStore(ObjectStore):
    """``gs://``: its package brings a hundred megabytes of Google's, and is none of our optional parts."""

    extra = None

    def __init__(self, url: str, db: PerfDB) -> None:
        if importlib.util.find_spec("gcsfs") is None:
            raise MissingExtraError(f"{url} needs the package gcsfs: pip install gcsfs")
        super().__init__(url, db)
