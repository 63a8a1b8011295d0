"""The sender's own pulse: what held it up, what it used, and what has to be done now and then."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable

from inferbench_tasks.loadgen.evidence import ShardUsage

_BEAT_S = 0.005


def cpu_s() -> float:
    """User and system time of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Heartbeat:
    """Beats in the sender's loop; how late a beat comes is how long the loop was held up."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        shard: int,
        measure_start_ns: int,
        measure_end_ns: int,
        on_beat: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._shard = shard
        self._start_ns = measure_start_ns
        self._end_ns = measure_end_ns
        self._on_beat = on_beat
        self._due_ns = 0
        self._max_stall_ns = 0
        self._began: tuple[int, float] | None = None
        self._ended: tuple[int, float] | None = None
        self._handle: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Arm the timer for the first beat."""
        self._schedule(time.monotonic_ns())

    def stop(self) -> None:
        """Close the timer: there is no further beat."""
        if self._handle is not None:
            self._handle.cancel()

    def usage(self) -> ShardUsage:
        """What was used within the measured window so far."""
        now = (time.monotonic_ns(), cpu_s())
        began = self._began or now
        ended = self._ended or now
        return ShardUsage(
            shard=self._shard,
            cpu_s=max(0.0, ended[1] - began[1]),
            wall_s=(ended[0] - began[0]) / 1e9,
            max_stall_ns=self._max_stall_ns,
        )

    def _schedule(self, now_ns: int) -> None:
        self._due_ns = now_ns + int(_BEAT_S * 1e9)
        self._handle = self._loop.call_later(_BEAT_S, self._beat)

    def _beat(self) -> None:
        now_ns = time.monotonic_ns()
        if self._start_ns <= now_ns and self._due_ns < self._end_ns:
            self._max_stall_ns = max(self._max_stall_ns, now_ns - self._due_ns)
        if self._began is None and now_ns >= self._start_ns:
            self._began = (now_ns, cpu_s())
        if self._ended is None and now_ns >= self._end_ns:
            self._ended = (now_ns, cpu_s())
        self._on_beat(now_ns)
        self._schedule(time.monotonic_ns())
