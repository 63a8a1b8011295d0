"""What is made again when it is needed: in the way of whoever makes or uses it just now nothing is removed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from inferbench_tasks.artifacts.removal import remove_folder
from inferbench_tasks.upkeep.entry import Entry
from inferbench_tasks.upkeep.sizes import allocated_bytes


def made_entry(mark: Path, lock: Path, in_use: str) -> Entry:
    """The folder of ``mark``, a file that whoever uses the folder touches; it is made under ``lock``."""
    folder, used_s = mark.parent, _used_at(mark)
    return Entry(folder, allocated_bytes(folder), used_s, partial(_remove, mark, lock, used_s), in_use)


def _used_at(mark: Path) -> float:
    try:
        return mark.stat().st_mtime
    except OSError:
        return 0.0


def _remove(mark: Path, lock: Path, used_s: float) -> str:
    try:
        with FileLock(lock).acquire(timeout=0):
            if _used_at(mark) != used_s:
                return "it was used meanwhile"
            remove_folder(mark.parent)
    except Timeout:
        return "somebody makes it just now"
    return ""
