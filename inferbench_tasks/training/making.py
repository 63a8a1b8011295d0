"""What a loader process's thread used while it made a batch: CPU time, and waits for a core."""

from __future__ import annotations

import os
import threading
import time
from functools import cache
from typing import Final, NamedTuple

from inferbench_tasks.monitors.schedstat import parse

#: What is told of each batch that a loader process made, ns, beside the times of its parts.
USED: Final = ("made_cpu", "made_wait")


class Use(NamedTuple):
    """Of a thread in its life, ns; ``wait_ns`` is None where the kernel tells no waits."""

    cpu_ns: int
    wait_ns: int | None


def used_here() -> Use | None:
    """Of this thread so far; None outside of a loader's processes, where the phase *loading* has these times."""
    from torch.utils.data import get_worker_info

    if get_worker_info() is None:
        return None
    # The kernel's own sum of what ran is as old as its last tick.
    return Use(time.thread_time_ns(), _waited_ns(threading.get_native_id()))


def since(begun: Use | None) -> list[int | None]:
    """The values of ``USED`` from then on; Nones of a batch that no loader process makes."""
    now = used_here() if begun else None
    if begun is None or now is None:
        return [None] * len(USED)
    known = begun.wait_ns is not None and now.wait_ns is not None
    return [now.cpu_ns - begun.cpu_ns, now.wait_ns - begun.wait_ns if known else None]  # type: ignore[operator]


def _waited_ns(thread: int) -> int | None:
    file = _schedstat(thread)
    return None if file is None else parse(os.pread(file, 100, 0)).waited_ns


@cache
def _schedstat(thread: int) -> int | None:
    """The file of a thread of this process, open as long as the process lives; a forked one has another thread."""
    try:
        return os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)
    except OSError:
        return None
