"""Where a program's threads are, sampled by the kernel: perf_event_open(2) with a ring buffer for each core.

As counters are (``perf_events``), samples are opened by the thread that starts a program, are then of every thread and
process that comes of it, and the program gets the open files. They take no counter of the processor: the kernel's own
clock of time on a core decides when one is taken.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from inferbench_tasks.monitors import perf_events

#: The variable with ``core=descriptor`` of each core, commas between them.
SAMPLES = "INFERBENCH_SAMPLES"
#: Of time on a core; kernels whose timers are coarser take fewer.
PERIOD_NS = 100_000
#: ``struct perf_event_attr`` with the clock of samples, its third version.
_SIZE = 96
#: PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK; of each sample where, which thread, when.
_TYPE, _CONFIG, _OF_EACH = 1, 0, 1 | 2 | 4
_USE_CLOCK, _MONOTONIC = 1 << 25, 1
#: Of a ring buffer: its pages, a power of two, behind one that says where it is read and written.
_PAGES = 64
_AT_HEAD, _AT_TAIL = 1024, 1032
_LOST, _SAMPLE = 2, 9
#: With less room than for a sample and a record of the lost ones before it, 32 and 24 bytes, some may be lost.
_ROOM = 64
#: In one piece, as the kernel reads and writes it while we do.
_NUMBER = struct.Struct("@Q")


class Sample(NamedTuple):
    """``time_ns``: CLOCK_MONOTONIC; ``address``: of the instruction that the thread was at."""

    time_ns: int
    address: int


def opened(cores: Iterable[int]) -> dict[int, int]:
    """Descriptors by core, of this thread and what it starts from now on, in user mode alone. OSError where the kernel
    takes none; then none is open."""
    flags = perf_events.INHERITED | _USE_CLOCK
    about = struct.pack(
        "=IIQQQQQIIQQQQIi",
        _TYPE, _SIZE, _CONFIG, PERIOD_NS, _OF_EACH, 0, flags, 0, 0, 0, 0, 0, 0, 0, _MONOTONIC,
    )  # fmt: skip
    descriptors: dict[int, int] = {}
    try:
        for core in cores:
            descriptors[core] = perf_events.asked(about, core)
    except OSError:
        close(descriptors)
        raise
    return descriptors


def opened_if_any(cores: Iterable[int]) -> dict[int, int]:
    """The same; nothing where the kernel takes none: a program runs without, and ``unavailable`` says why."""
    try:
        return opened(cores)
    except OSError:
        return {}


def close(descriptors: Mapping[int, int]) -> None:
    """What others hold goes on."""
    perf_events.close({str(core): at for core, at in descriptors.items()})


def named(descriptors: Mapping[int, int]) -> dict[str, str]:
    """The variable that tells a program which it got; none where there are none."""
    return {SAMPLES: ",".join(f"{core}={at}" for core, at in descriptors.items())} if descriptors else {}


def passed_on(environment: Mapping[str, str]) -> list[int]:
    """What whoever started this program opened for it; programs that it starts itself don't get them."""
    descriptors = [int(each.partition("=")[2]) for each in environment.get(SAMPLES, "").split(",") if each]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return descriptors


def unavailable() -> str | None:
    """Why no samples can be taken here, and what helps; None if they can."""
    try:
        close(opened(sorted(os.sched_getaffinity(0))[:1]))
    except OSError as error:
        return perf_events.why_not(error)
    return None


class Reading(NamedTuple):
    """``data``: records as the kernel wrote them, see ``samples_of``. ``whole``: none is missing between the reading
    before and this one.
    """

    data: bytes
    whole: bool


class Ring:
    """One core's samples, which the kernel writes up to where they were read: what then comes is lost."""

    def __init__(self, descriptor: int) -> None:
        page = mmap.PAGESIZE
        self._map = mmap.mmap(descriptor, (1 + _PAGES) * page)
        self._begin, self._bytes = page, _PAGES * page
        self._read_to = -1

    @property
    def filled_ratio(self) -> float:
        """How much of it was not read yet."""
        return (self._at(_AT_HEAD) - self._at(_AT_TAIL)) / self._bytes

    def read(self) -> Reading:
        """What came since the last reading.

        The kernel tells how many found no room only together with the next one that does, perhaps never. So a loss is
        told by the room: as long as it was read up to ``tail`` there was none for one more.
        """
        head, tail = self._at(_AT_HEAD), self._at(_AT_TAIL)
        data = self._between(tail, head)
        _NUMBER.pack_into(self._map, _AT_TAIL, head)
        full = self._at(_AT_HEAD) - tail >= self._bytes - _ROOM
        by_others = tail != self._read_to
        self._read_to = head
        return Reading(data, whole=not full and not by_others)

    def close(self) -> None:
        """Map it no more."""
        self._map.close()

    def _at(self, place: int) -> int:
        return int(_NUMBER.unpack_from(self._map, place)[0])

    def _between(self, tail: int, head: int) -> bytes:
        """What stands there; it may go on at the buffer's beginning."""
        first, last = tail % self._bytes, head % self._bytes
        if head - tail and last <= first:
            whole = self._begin + self._bytes
            return self._map[self._begin + first : whole] + self._map[self._begin : self._begin + last]
        return self._map[self._begin + first : self._begin + last]


def samples_of(data: bytes) -> tuple[list[Sample], int]:
    """The samples of a reading, and how many the kernel says to have found no room before."""
    samples, lost, at = [], 0, 0
    while at < len(data):
        kind, _, size = struct.unpack_from("=IHH", data, at)
        if kind == _SAMPLE:
            address, _, _, time_ns = struct.unpack_from("=QIIQ", data, at + 8)
            samples.append(Sample(time_ns, address))
        elif kind == _LOST:
            lost += struct.unpack_from("=QQ", data, at + 8)[1]
        at += size
    return samples, lost
