"""The exchange of gradients, by the clocks of DistributedDataParallel's own reducer.

In each backward pass it notes when the first bucket of gradients is handed to the process group, when the last gradient
is computed, and when the last bucket has come back (on a GPU by events on the stream). In all is from the first to the
third, apart from the second to the third: what computing does not hide. Both hold the wait for the slowest rank.

Before a forward pass it sends running statistics to all ranks, where the network has any: a wait for the others that is
no part of computing. The thread that waits times it.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Final

from inferbench_tasks.monitors.schedstat import RunDelays

#: Backward passes between two looks of the reducer, in epochs that don't want any.
_NEVER: Final = 1 << 30


class Exchange:
    """``network``: a DistributedDataParallel. ``statistics``: whether their exchange can be timed."""

    #: Of the gradients; then of the running statistics: wall clock, CPU time and waits for a core of the thread.
    columns: Final = ("all_reduce_ns", "all_reduce_apart_ns")
    statistics: Final = ("statistics_ns", "statistics_cpu_ns", "statistics_wait_ns")

    def __init__(self, network: Any, statistics: bool = True) -> None:
        self._network = network
        self._timed = statistics
        self._thread = threading.get_native_id()
        self._waits = RunDelays()
        self._waits.watch(self._thread, Path(f"/proc/self/task/{self._thread}/schedstat"))
        self._statistics: list[int | None] = []
        self.watch(False)

    def watch(self, wanted: bool) -> None:
        """Whether the clocks are read in the passes to come; the reducer's in its first ten always."""
        self._network._set_ddp_runtime_logging_sample_rate(1 if wanted else _NEVER)
        self._statistics = [0, 0, 0] if self._timed else [None] * 3
        if wanted and self._timed:
            self._network._sync_buffers = self._sync
        else:
            self._network.__dict__.pop("_sync_buffers", None)

    def _sync(self) -> None:
        """DistributedDataParallel's own, timed."""
        before_ns, cpu_ns, start_ns = self._waited_ns(), time.thread_time_ns(), time.monotonic_ns()
        type(self._network)._sync_buffers(self._network)
        wall_ns, cpu_ns = time.monotonic_ns() - start_ns, time.thread_time_ns() - cpu_ns
        after_ns = self._waited_ns()
        wait_ns = None if before_ns is None or after_ns is None else after_ns - before_ns
        self._statistics = [wall_ns, cpu_ns, wait_ns]

    def _waited_ns(self) -> int | None:
        self._waits.read()
        last = self._waits.last(self._thread)
        return None if last is None else last.waited_ns

    def read(self) -> tuple[int | None, ...]:
        """Of the backward pass that is over, in all and apart, ns, None where the reducer has none; and of the exchange
        of statistics before its forward pass, 0 without any.
        """
        self._network.logger.set_runtime_stats_and_log()
        times = self._network._get_ddp_logging_data()
        whole, beside = times.get("backward_comm_time"), times.get("backward_compute_comm_overlap_time")
        if not whole or beside is None:
            return None, None, *self._statistics
        return int(whole), max(0, int(whole) - int(beside)), *self._statistics
