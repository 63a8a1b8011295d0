"""Artefacts that are made once and kept: trained models, request sets, conversions.

An entry is a folder ``<root>/<key>`` with its files and ``entry.json``: what was made, and the SHA-256
of every file. It appears by one rename, so a crash leaves none or a whole one; a lock per key lets two
processes that want the same entry make it once. An entry whose files no longer match is made again.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from inferbench_tasks.errors import StorageError
from inferbench_tasks.folder_tree import MOST_DEEP, remove_tree, walked
from inferbench_tasks.strangers_folder import read

log = logging.getLogger(__name__)

MANIFEST = "entry.json"
#: A file that was changed this recently may change again without its times telling.
_SETTLED_NS = 2_000_000_000
#: Where less is left after something failed, it failed for want of space, whatever a library said of it.
_FULL_BYTES = 1 << 20
#: What ``read`` says of a link, a pipe, a folder and of a file or folders without
#: end: a stranger's process put it there.
_NO_PLAIN_FILE = (
    errno.ELOOP, errno.EINVAL, errno.ENOTDIR, errno.ENXIO, errno.EISDIR, errno.EFBIG,
)  # fmt: skip
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)


def key_of(settings: dict[str, Any]) -> str:
    """The cache key of settings: SHA-256 of their canonical JSON."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of one file. What this process has read already, and nobody touched since, is not read again."""
    status = path.stat()
    if time.time_ns() - max(status.st_mtime_ns, status.st_ctime_ns) < _SETTLED_NS:
        return _read_digest(path)
    return _settled_digest(
        path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
    )


def _read_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=10_000)
def _settled_digest(path: Path, *_identity: int) -> str:
    """A change gives the file another change time, which nobody can set."""
    return _read_digest(path)


def tree_digest(path: Path) -> str:
    """SHA-256 over a file, or over the names and contents of a folder's files."""
    if path.is_file():
        return file_digest(path)
    return _digest_of(_digests(path))


def digest_of_files(paths: list[Path]) -> str:
    """SHA-256 over the names and contents of some files; the names from the folder of the first."""
    root = paths[0].parent.resolve()
    return _digest_of({path.resolve().relative_to(root).as_posix(): file_digest(path) for path in paths})


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != MANIFEST)
    return {p.relative_to(folder).as_posix(): file_digest(p) for p in files}


def _digest_of(digests: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Entry:
    """``facts`` is what the maker returned; ``digest`` covers the entry's files."""

    folder: Path
    facts: dict[str, Any]
    digest: str
    cached: bool


class ArtifactCache:
    """A cache of artefacts: one entry per key, under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def find(self, settings: dict[str, Any]) -> Entry | None:
        """The whole and unchanged entry of these settings, or None."""
        folder = self.root / key_of(settings)
        try:
            manifest = json.loads(read(folder / MANIFEST, within=self.root))
            recorded, facts = manifest["files"], manifest["facts"]
            if not isinstance(recorded, dict) or not isinstance(facts, dict):
                raise TypeError(f"{MANIFEST} has other fields")
            if any(found.too_deep for found in walked(folder, failed=lambda _: None)):
                raise OSError(errno.EFBIG, f"folders nested deeper than {MOST_DEEP}", str(folder))
            present = _digests(folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in _NO_PLAIN_FILE:
                raise
            log.warning("a cache entry is none; it is made again entry=%s: %s", folder, error.strerror)
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            log.warning("a cache entry's manifest can't be read; it is made again entry=%s", folder)
            return None
        if present != recorded:
            changed = sorted(n for n in {*present, *recorded} if present.get(n) != recorded.get(n))
            log.warning("a cache entry was changed; it is made again entry=%s files=%s", folder, changed)
            return None
        with suppress(OSError):  # where it may only be read
            os.utime(
                folder / MANIFEST, follow_symlinks=False
            )  # used just now: what was used longest ago is removed first
        return Entry(folder, facts, _digest_of(recorded), cached=True)

    def get(self, settings: dict[str, Any], make: Callable[[Path], dict[str, Any]]) -> Entry:
        """The entry of these settings; ``make(folder)`` fills an empty folder and returns its facts.

        Raises StorageError without space or permission, and whatever ``make`` raises; then nothing is
        left behind.
        """
        if entry := self.find(settings):
            return entry
        folder = self.root / key_of(settings)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with FileLock(self.root / f".{folder.name}.lock"):
                if entry := self.find(settings):  # another process made it meanwhile
                    return entry
                for leftover in self.root.glob(f".{folder.name}.tmp-*"):
                    remove_tree(leftover)  # of a process that was killed; the lock is ours
                return self._make(folder, settings, make)
        except OSError as error:
            if error.errno in _UNWRITABLE and self._has(error.filename):
                raise self._unwritable(str(error.strerror)) from error
            raise

    def _has(self, path: Any) -> bool:
        """Whether an error's file is one of the cache's; one without a name is."""
        return not isinstance(path, str | bytes) or Path(os.fsdecode(path)).is_relative_to(self.root)

    def _unwritable(self, cause: str) -> StorageError:
        return StorageError(
            f"The cache {self.root} can't be written: {cause}. Free or fix it, or choose another data directory "
            f"(--data-dir)."
        )

    def _make(self, folder: Path, settings: dict[str, Any], make: Callable[[Path], dict[str, Any]]) -> Entry:
        temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}.tmp-", dir=self.root))
        try:
            facts = make(temporary)
            digests = _digests(temporary)
            manifest = {"settings": settings, "facts": facts, "files": digests}
            (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1, allow_nan=False))
            for path in temporary.rglob("*"):
                _sync(path)  # a rename that survives a power cut must not point at empty files
            if folder.exists():
                # A changed entry: whoever has its files open keeps them until they close.
                doomed = temporary.with_name(temporary.name.replace(".tmp-", ".tmp-old-"))
                os.replace(folder, doomed)
                os.replace(temporary, folder)
                remove_tree(doomed)
            else:
                os.replace(temporary, folder)
        except BaseException as error:
            full = (
                not isinstance(error, OSError) and isinstance(error, Exception) and _is_full(temporary, error)
            )
            with suppress(OSError):  # what is told is the first error
                remove_tree(temporary)
            if full:
                raise self._unwritable(os.strerror(errno.ENOSPC)) from error
            raise
        return Entry(folder, json.loads(json.dumps(facts)), _digest_of(digests), cached=False)


def _is_full(folder: Path, error: Exception) -> bool:
    """Whether space ran out: libraries that write models say so in errors of their own, or only that it failed."""
    return os.strerror(errno.ENOSPC) in str(error) or shutil.disk_usage(folder).free < _FULL_BYTES


def _sync(path: Path) -> None:
    if path.is_file():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
