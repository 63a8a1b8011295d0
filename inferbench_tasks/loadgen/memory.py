"""Memory of a long load: what is freed goes back to the system at once."""

from __future__ import annotations

import ctypes

#: glibc's name for it; it raises its threshold by itself as large pieces are freed, unless it is set.
_M_MMAP_THRESHOLD = -3
_THRESHOLD_BYTES = 1 << 20


def give_freed_memory_back() -> None:
    """From now on every large array is a mapping of its own, unmapped when it is freed.

    Without this a process that sums up millions of records keeps all the room that its temporary arrays
    ever took. Where the C library has no such switch nothing changes.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _THRESHOLD_BYTES)
