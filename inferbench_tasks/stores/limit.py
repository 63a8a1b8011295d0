"""The bound on what a host keeps of fetched artifacts: what was used longest ago goes, never what a run uses."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from inferbench_tasks.artifacts.cache import MANIFEST
from inferbench_tasks.artifacts.removal import remove_folder
from inferbench_tasks.errors import InputError
from inferbench_tasks.stores.holdings import FETCHED, Holdings
from inferbench_tasks.stores.parts import all_parts, lock_of, written_bytes

log = logging.getLogger(__name__)

CACHE_BYTES = "INFERBENCH_CACHE_BYTES"
DEFAULT_BYTES = 50_000_000_000
#: What a cut-off fetch left is kept for so long.
PARTS_S = 7 * 86_400.0
_FORM = re.compile(r"(\d{1,15}(?:\.\d{1,3})?) ?(MB|GB|TB)?")
_UNITS = {None: 1, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def cache_bytes() -> int:
    """The bound; InputError where the setting is no size."""
    text = (os.environ.get(CACHE_BYTES) or str(DEFAULT_BYTES)).strip()
    match = _FORM.fullmatch(text)
    if match is None:
        raise InputError(
            f"{CACHE_BYTES} is {text[:40]!r}; a size is needed: bytes, or with MB, GB or TB, such as 20GB"
        )
    return int(float(match[1]) * _UNITS[match[2]])


def fetched_bytes(data_dir: Path) -> int:
    """What all fetched artifacts of a data directory take."""
    return sum(size for _, size, _ in _entries(data_dir / FETCHED))


def _entries(root: Path) -> list[tuple[float, int, Path]]:
    """(when it was used last, its bytes, its folder) of each fetched artifact; none of one that goes meanwhile."""
    entries = []
    for folder in root.iterdir() if root.is_dir() else ():
        if not folder.name.startswith(".") and folder.is_dir():
            with contextlib.suppress(FileNotFoundError):
                size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
                entries.append((_used_at(folder), size, folder))
    return entries


def make_room(holdings: Holdings, needed: int, in_use: Callable[[], set[str]]) -> None:
    """Remove what was used longest ago, until so many bytes more are within the bound.

    What was fetched in part counts with what it takes now; what it will take more is to be part of ``needed``.
    ``in_use``: the digests of what runs use, asked only if something has to go. What can't go stays, and is told.
    """
    root = holdings.data_dir / FETCHED
    _remove_old_parts(root)
    entries = _entries(root)
    total = sum(size for _, size, _ in entries) + sum(map(written_bytes, all_parts(root))) + needed
    bound = cache_bytes()
    if total <= bound:
        return
    used = in_use()
    for used_s, size, folder in sorted(entries):
        if total <= bound:
            return
        if folder.name not in used and _remove(folder, used_s, holdings):
            total -= size
    if total > bound:
        log.warning("artifacts that runs use take %d bytes, beyond %s of %d", total, CACHE_BYTES, bound)


def _remove_old_parts(root: Path) -> None:
    """What was fetched in part, and nobody went on with."""
    for parts in all_parts(root):
        try:
            if time.time() - parts.stat().st_mtime > PARTS_S:
                with lock_of(parts).acquire(timeout=0):
                    shutil.rmtree(parts)
        except (Timeout, FileNotFoundError):  # somebody goes on with it, or it is whole now
            continue


def _remove(folder: Path, used_s: float, holdings: Holdings) -> bool:
    lock = FileLock(folder.parent / f".{folder.name}.lock")
    try:
        with lock.acquire(timeout=0):
            if _used_at(folder) != used_s:
                return False
            holdings.forget(folder.name)
            remove_folder(folder)
    except Timeout:
        return False
    log.info("removed a fetched artifact for the room that it takes artifact=%s", folder.name)
    return True


def _used_at(folder: Path) -> float:
    try:
        return (folder / MANIFEST).stat().st_mtime
    except OSError:
        return 0.0
