"""Events that the kernel counts for a program and all that it starts: perf_event_open(2), see its manual page.

A server in the sandbox may not ask for them. So they are opened by the thread that starts it, before that thread gives
anything up: what a thread counts with ``inherit`` is counted of every process and thread that comes of it, too. The
program gets the open files, whose names stand in ``COUNTS``.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

#: The variable with ``name=descriptor`` of each event, commas between them.
COUNTS = "INFERBENCH_COUNTS"
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
#: Up to here users may count what their own processes do.
_MOST_PARANOID = 2
_CALLS = {"x86_64": 298, "aarch64": 241}
#: The size of ``struct perf_event_attr`` in its first version, which every kernel takes.
_SIZE = 64
#: Of what this thread starts, too; neither in the kernel nor in a hypervisor.
INHERITED = 1 << 1 | 1 << 5 | 1 << 6
_ENABLED, _RUNNING = 1, 2
_CLOSED_ON_EXEC = 8


class Event(NamedTuple):
    """One of ``perf_type_id`` and what it counts by that."""

    name: str
    type: int
    config: int


#: PERF_TYPE_HARDWARE: CPU_CYCLES, INSTRUCTIONS, CACHE_MISSES (of the last level). Few enough for any processor to count
#: them all at once.
PROCESSOR: tuple[Event, ...] = (
    Event("cycles", 0, 0),
    Event("instructions", 0, 1),
    Event("cache_misses", 0, 3),
)


class Count(NamedTuple):
    """So far, of all that is counted together: ``enabled_ns`` it ran, ``running_ns`` of which a counter was free."""

    value: int
    enabled_ns: int
    running_ns: int


def opened(events: Sequence[Event]) -> dict[str, int]:
    """Descriptors by name, which count this thread and what it starts from now on, in user mode alone.

    OSError where one of them can't be counted; then none is.
    """
    descriptors: dict[str, int] = {}
    try:
        for event in events:
            descriptors[event.name] = _open(event)
    except OSError:
        close(descriptors)
        raise
    return descriptors


def opened_if_any(events: Sequence[Event]) -> dict[str, int]:
    """The same; nothing where they can't be counted: a program runs without, and ``unavailable`` says why."""
    try:
        return opened(events)
    except OSError:
        return {}


def close(descriptors: Mapping[str, int]) -> None:
    """What others hold goes on counting."""
    for descriptor in descriptors.values():
        with suppress(OSError):
            os.close(descriptor)


def named(descriptors: Mapping[str, int]) -> dict[str, str]:
    """The variable that tells a program which it got; none where there are none."""
    return {COUNTS: ",".join(f"{name}={at}" for name, at in descriptors.items())} if descriptors else {}


def passed_on(environment: Mapping[str, str]) -> dict[str, int]:
    """What whoever started this program opened for it; programs that it starts itself don't get them."""
    pairs = [each.partition("=") for each in environment.get(COUNTS, "").split(",") if each]
    descriptors = {name: int(at) for name, _, at in pairs}
    for descriptor in descriptors.values():
        os.set_inheritable(descriptor, False)
    return descriptors


def read(descriptor: int) -> Count:
    """OSError where there is nothing to be read."""
    told = os.read(descriptor, 24)
    if len(told) != 24:
        raise OSError(errno.EIO, "the kernel does not count this event any more")
    return Count(*struct.unpack("=QQQ", told))


def counted(before: Count, after: Count) -> tuple[float | None, float]:
    """What came between two readings, and of which share of the time it was counted.

    Where more events are asked for than the processor has counters, each is counted for a part of the time: the value
    is that of the part, by its share (as perf stat does); None where it never had a counter.
    """
    value, enabled_ns, running_ns = (b - a for a, b in zip(before, after, strict=True))
    if enabled_ns <= 0:
        return float(value), 1.0  # nothing of it ran
    if running_ns <= 0:
        return None, 0.0
    share = min(1.0, running_ns / enabled_ns)
    return value / share, share


def unavailable(events: Sequence[Event] = PROCESSOR) -> str | None:
    """Why these can't be counted here, and what helps; None if they can."""
    try:
        close(opened(events))
    except OSError as error:
        return why_not(error)
    return None


def why_not(error: OSError) -> str:
    """What an error of the call means, and what helps."""
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENXIO):
        return (
            "this machine shows no counters of its processor (no PMU), as most virtual machines; use the host itself, "
            "or a virtual machine that has one (KVM: -cpu host,pmu=on; of clouds whole hosts)"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        try:
            level = int(_PARANOID.read_text())
        except (OSError, ValueError):
            return f"this kernel counts no events ({_PARANOID} is missing)"
        if level > _MOST_PARANOID:
            return (
                f"the kernel keeps its counters from users ({_PARANOID} is {level}): "
                f"sysctl kernel.perf_event_paranoid={_MOST_PARANOID}"
            )
        return "perf_event_open is refused here, as in a container (Docker: --cap-add PERFMON)"
    return f"perf_event_open: {error.strerror}"


def _open(event: Event) -> int:
    return asked(
        struct.pack(
            "=IIQQQQQIIQ", event.type, _SIZE, event.config, 0, 0, _ENABLED | _RUNNING, INHERITED, 0, 0, 0
        )
    )


def asked(about: bytes, core: int = -1) -> int:
    """The descriptor of what a ``struct perf_event_attr`` asks for, of this thread on that core (-1: any). OSError."""
    number = _CALLS.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    libc = ctypes.CDLL(None, use_errno=True)
    # In no group: what is inherited can't be read as one.
    arguments = (ctypes.c_int(0), ctypes.c_int(core), ctypes.c_int(-1), ctypes.c_ulong(_CLOSED_ON_EXEC))
    descriptor = int(
        libc.syscall(ctypes.c_long(number), ctypes.create_string_buffer(about, len(about)), *arguments)
    )
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return descriptor
