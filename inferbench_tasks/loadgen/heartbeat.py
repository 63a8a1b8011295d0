"""The sender's own pulse: what held it up, what it used, and what has to be done now and then."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable

from inferbench_tasks.loadgen.evidence import ShardUsage

_BEAT_S = 0.005
#: A beat that is less late than this was not held up: timers and the loop's own work are.
MIN_STALL_NS = 1_000_000
#: Shorter ones are no part of the sum: a loop that answers a batch takes as long, and so does a time slice of the
#: scheduler (4 ms), whatever the sender does.
SUMMED_STALL_NS = 5_000_000
#: So many stalls are listed; where there are more, the shorter half is left out of the list.
_MOST_STALLS = 8192


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
        self._max_stall_ns = self._stalled_ns = 0
        self._stalls_ns: list[tuple[int, int]] = []
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
            stalls_ns=tuple(self._stalls_ns),
            stalled_ns=self._stalled_ns,
        )

    def _schedule(self, now_ns: int) -> None:
        self._due_ns = now_ns + int(_BEAT_S * 1e9)
        self._handle = self._loop.call_later(_BEAT_S, self._beat)

    def _note_stall(self, now_ns: int) -> None:
        late_ns = now_ns - self._due_ns
        self._max_stall_ns = max(self._max_stall_ns, late_ns)
        if late_ns < MIN_STALL_NS:
            return
        if late_ns >= SUMMED_STALL_NS:
            self._stalled_ns += late_ns
        self._stalls_ns.append((self._due_ns, now_ns))
        if len(self._stalls_ns) > _MOST_STALLS:
            longest = sorted(self._stalls_ns, key=lambda stall: stall[0] - stall[1])[: _MOST_STALLS // 2]
            self._stalls_ns = sorted(longest)

    def _beat(self) -> None:
        now_ns = time.monotonic_ns()
        if self._start_ns <= now_ns and self._due_ns < self._end_ns:
            self._note_stall(now_ns)
        if self._began is None and now_ns >= self._start_ns:
            self._began = (now_ns, cpu_s())
        if self._ended is None and now_ns >= self._end_ns:
            self._ended = (now_ns, cpu_s())
        self._on_beat(now_ns)
        self._schedule(time.monotonic_ns())
