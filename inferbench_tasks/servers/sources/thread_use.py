"""What the thread that asks the runtime used: the kernel's own figures of that thread."""

from __future__ import annotations

import os
import resource
import threading
import time
from typing import ClassVar

from inferbench_tasks.monitors.schedstat import parse as parse_schedstat
from inferbench_tasks.servers.sources.base import Used
from inferbench_tasks.servers.sources.stands import Stand, names_of, used

_NAMES = names_of()


class ThreadUse:
    """Of the thread alone: what a runtime's other threads used is the process's.

    It belongs to one thread, which is known from its first run on.
    """

    title: ClassVar[str] = "the kernel's figures of the thread"
    tells: ClassVar[str] = (
        "CPU time, waits for a core, switches and faults of the thread that asks the runtime: attributes of each run "
        "(cpu_ns, wait_for_core_ns, switches_*, faults_*)"
    )

    def __init__(self) -> None:
        self._file: int | None = None
        self._begun: Stand | None = None

    @classmethod
    def unavailable(cls) -> str | None:
        """Every Linux tells; one without statistics of its scheduler leaves the waits out."""
        return None

    def start(self) -> None:
        """Remember what they stand at; its CPU time last, so that asking is not in it."""
        if self._file is None:
            self._file = _statistics(threading.get_native_id())
        usage = resource.getrusage(resource.RUSAGE_THREAD)
        self._begun = Stand(usage, self._waits_ns(), time.thread_time_ns())

    def stop(self) -> Used:
        """What came to them since."""
        cpu_ns = time.thread_time_ns()
        assert self._begun is not None
        now = Stand(resource.getrusage(resource.RUSAGE_THREAD), self._waits_ns(), cpu_ns)
        return used(_NAMES, self._begun, now)

    def _waits_ns(self) -> int | None:
        """How long this thread has waited for a core so far; None where the kernel does not tell."""
        if self._file is None or self._file < 0:
            return None
        try:
            return parse_schedstat(os.pread(self._file, 128, 0)).waited_ns
        except (OSError, ValueError):
            return None


def _statistics(thread: int) -> int:
    """The file stays open, for opening it takes longer; -1 where there is none."""
    try:
        return os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)
    except OSError:
        return -1
