"""Two readings of the clocks around the measured steps of an epoch, of the device's too where it has one."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from inferbench_tasks.monitors import memory_stalls
from inferbench_tasks.monitors.memory_stalls import MemoryStalls
from inferbench_tasks.monitors.schedstat import ThreadWaits, of_processes
from inferbench_tasks.training.order import Epoch, MemoryGrown
from inferbench_tasks.training.phases import MEASURED

Number = TypeVar("Number", int, float)


class Window:
    """From the first whole step after the warm-up to the end of the last whole one: two readings of the clocks."""

    def __init__(self, epoch: Epoch, synchronise: Callable[[], None], waits: ThreadWaits) -> None:
        self._epoch = epoch
        self._synchronise = synchronise
        self._waits = waits
        self._before: _Use | None = None
        self._cpu_ns = 0

    def next(self, part: int, samples: int) -> None:
        """Before each step."""
        epoch = self._epoch
        if part == MEASURED:
            epoch.window_samples += samples
            if epoch.window_start_ns is None:
                self._waits.find()
                self._before = _Use.now(self._waits)
                self._synchronise()
                self._cpu_ns = time.process_time_ns()
                epoch.window_start_ns = time.monotonic_ns()
        else:
            self.close()

    def close(self) -> None:
        """After the last step, or before one that is not of the window."""
        epoch, before = self._epoch, self._before
        if before is None or epoch.window_end_ns is not None:
            return
        self._synchronise()
        epoch.window_end_ns = time.monotonic_ns()
        # What the other readings cost is none of the window's.
        epoch.cpu_s = (time.process_time_ns() - self._cpu_ns) / 1e9
        after = _Use.now(self._waits)
        epoch.memory = _grown(before.memory, after.memory)
        if before.each_ns:
            grown_ns = [ns - before.each_ns.get(thread, ns) for thread, ns in after.each_ns.items()]
            epoch.longest_wait_s = max(grown_ns, default=0) / 1e9
        if before.wait_ns is not None and after.wait_ns is not None:
            epoch.wait_s = (after.wait_ns - before.wait_ns) / 1e9
        if before.loader_ns is not None and after.loader_ns is not None:
            epoch.loader_cpu_s = (after.loader_ns[0] - before.loader_ns[0]) / 1e9
            epoch.loader_wait_s = (after.loader_ns[1] - before.loader_ns[1]) / 1e9


@dataclass(frozen=True)
class _Use:
    """What this process and its loader's processes had used at one moment, ns: see ``Epoch``."""

    wait_ns: int | None
    each_ns: dict[Hashable, int]
    loader_ns: tuple[int, int] | None
    memory: MemoryStalls

    @classmethod
    def now(cls, waits: ThreadWaits) -> _Use:
        pids = [child.pid for child in multiprocessing.active_children() if child.pid]
        memory = memory_stalls.read([os.getpid(), *pids])
        return cls(waits.read_ns(), waits.each_ns(), of_processes(pids), memory)


def _grown(before: MemoryStalls, after: MemoryStalls) -> MemoryGrown:
    """A loader process that ended meanwhile takes its faults with it: never fewer than none."""
    return MemoryGrown(
        major_faults=max(0, after.major_faults - before.major_faults),
        scope=after.scope,
        stalled_s=_more(before.stalled_s, after.stalled_s),
        swapped_in_bytes=_more(before.swapped_in_bytes, after.swapped_in_bytes),
        swapped_out_bytes=_more(before.swapped_out_bytes, after.swapped_out_bytes),
    )


def _more(first: Number | None, last: Number | None) -> Number | None:
    return None if first is None or last is None else max(last - first, type(last)(0))
