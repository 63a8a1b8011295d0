"""Files out of the page cache, and whether they are."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence


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
