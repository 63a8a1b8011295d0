"""Fetches that are not whole yet, ``cache/fetched/.<digest>.part/``: what they have written, and still will.

Who fetches holds ``.<digest>.lock``. The room that it was promised stands in the folder, so that two fetches at once
don't take the same; where nobody fetches any more, nothing is promised.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

#: The lock of who reckons how much room there is.
ROOM = ".room.lock"
_PROMISED = "promised"


def parts_of(root: Path, digest: str) -> Path:
    """The folder of an artifact's fetch."""
    return root / f".{digest}.part"


def all_parts(root: Path) -> Iterator[Path]:
    """The folders of all fetches of a cache that are not whole."""
    return root.glob(".*.part")


def lock_of(parts: Path) -> FileLock:
    """What who fetches into that folder holds."""
    return FileLock(parts.with_suffix(".lock"))


def promise(parts: Path, total_bytes: int) -> None:
    """It will have so many bytes at its end."""
    (parts / _PROMISED).write_text(str(total_bytes))


def written_bytes(parts: Path) -> int:
    """What its contents take on the disk now; files have holes where parts of them have not come."""
    total = 0
    with contextlib.suppress(FileNotFoundError):  # it is whole now, and goes
        for path in parts.iterdir():
            if path.name != _PROMISED:
                total += path.stat().st_blocks * 512
    return total


def promised_bytes(root: Path, besides: Path) -> int:
    """What all other fetches that go on now will still write."""
    return sum(_outstanding(parts) for parts in all_parts(root) if parts != besides)


def _outstanding(parts: Path) -> int:
    if not _goes_on(parts):
        return 0
    try:
        promised = int((parts / _PROMISED).read_text() or 0)
    except FileNotFoundError:  # it has not been promised any, or is whole now
        return 0
    return max(0, promised - written_bytes(parts))


def _goes_on(parts: Path) -> bool:
    try:
        with lock_of(parts).acquire(timeout=0):
            return False
    except Timeout:
        return True
