"""Files out of the page cache, and whether they are."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

from inferbench_tasks.errors import InputError

#: Of files that are to be cold so much may be in memory.
RESIDENT_RATIO = 0.02
#: A file of this size is tried, and so many of the user's.
_TRIED_BYTES, _TRIED_FILES = 1 << 18, 8


def check(folder: Path) -> None:
    """Whether files below ``folder`` leave the page cache, by one that is made there and removed; see
    ``check_files``.
    """
    path = folder / "cold.probe"
    try:
        with path.open("wb") as file:
            file.write(os.urandom(_TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())  # pages that are not written yet can't be dropped
        check_files([str(path)], f"files in {folder}")
    finally:
        path.unlink(missing_ok=True)


def check_files(paths: Sequence[str], what: str) -> None:
    """InputError where the first of these files stay in memory: a file system in memory, or others that hold them
    there.

    Where the kernel does not tell, nothing is said: the ranks look again, and the run is invalid if they see nothing.
    """
    tried = list(paths[:_TRIED_FILES])
    warm(tried)
    drop(tried)
    ratio = resident_ratio(tried)
    if ratio is not None and ratio > RESIDENT_RATIO:
        raise InputError(
            f"cold reads are not possible: of {what} {ratio:.0%} stay in memory when they are dropped (a file system "
            "in "
            "memory, or other processes hold them); lay them on a disk, or give data.read: warm",
            field="data.read",
        )


def drop(paths: Sequence[str]) -> None:
    """Ask the kernel to forget these files' pages; it keeps those that some process has mapped or not yet written."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def warm(paths: Sequence[str]) -> None:
    """Read these files, so that the kernel keeps their pages as long as it has room for them."""
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass


def resident_ratio(paths: Sequence[str]) -> float | None:
    """Which share of these files' pages is in memory (mincore); None where the kernel does not say.

    It says "all" of files that this process neither owns nor may write (Linux since 5.2): that is no answer.
    """
    if not all(_tells(path) for path in paths):
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    mincore = getattr(libc, "mincore", None)
    if mincore is None:
        return None
    mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_ubyte)]
    pages = resident = 0
    for path in paths:
        size = os.path.getsize(path)
        if not size:
            continue
        with open(path, "rb") as file, mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE) as mapped:
            count = -(-size // mmap.PAGESIZE)
            vector = (ctypes.c_ubyte * count)()
            anchor = ctypes.c_char.from_buffer(mapped)
            try:
                failed = mincore(ctypes.addressof(anchor), size, vector)
            finally:
                del anchor  # a mapping with a view on it can't be closed
            if failed:
                return None
            pages += count
            resident += sum(value & 1 for value in vector)
    return resident / pages if pages else None


def _tells(path: str) -> bool:
    return os.stat(path).st_uid == os.geteuid() or os.access(path, os.W_OK, effective_ids=True)
