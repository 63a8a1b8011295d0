"""What processes lose for want of memory: faults that read a disk, swapping, and the kernel's own count of stalls.

A process that has too little memory computes nothing wrong: pages that were thrown away, or swapped out, are read again
in the middle of its work. The kernel tells how often (major faults, ``/proc/PID/stat``), how much was swapped
(``/proc/vmstat``), and for how long tasks stood still for it (pressure stall information, PSI).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: Field of ``/proc/PID/stat`` behind the command's name: faults that had to wait for a disk.
_MAJOR_FAULTS = 9
Scope = Literal["cgroup", "machine"]


@dataclass(frozen=True)
class MemoryStalls:
    """Counters at one moment. ``major_faults``: of the processes that were asked for, in their life. ``stalled_s``:
    time in which some task waited for memory, of ``scope``: the processes' own cgroup, or the machine where the kernel
    keeps no such count for theirs. ``swapped_in_bytes``, ``swapped_out_bytes``: of the machine. None where nothing is
    told.
    """

    major_faults: int
    stalled_s: float | None = None
    scope: Scope | None = None
    swapped_in_bytes: int | None = None
    swapped_out_bytes: int | None = None


def read(
    pids: Iterable[int], proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")
) -> MemoryStalls:
    """Of these processes now; one that has ended counts no more."""
    faults = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):  # it ended
            content = (proc / str(pid) / "stat").read_bytes()
            # The name may hold spaces and parentheses; the last one ends it.
            faults += int(content[content.rindex(b")") + 2 :].split()[_MAJOR_FAULTS])
    path, scope = pressure_path(proc, cgroups)
    stalled_s = None
    with suppress(OSError, ValueError, IndexError):  # a kernel without PSI
        stalled_s = int(path.read_text().splitlines()[0].rsplit("total=", 1)[1]) / 1e6
    swapped = _swapped(proc)
    return MemoryStalls(
        faults,
        stalled_s,
        scope if stalled_s is not None else None,
        swapped.get("pswpin"),
        swapped.get("pswpout"),
    )


def pressure_path(proc: Path, cgroups: Path) -> tuple[Path, Scope]:
    """Where the pressure on memory stands: of this process's own cgroup (version 2), else of the machine."""
    with suppress(OSError):
        lines = (proc / "self" / "cgroup").read_text().splitlines()
        own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
        path = cgroups / own.lstrip("/") / "memory.pressure"
        if own != "/" and path.exists():
            return path, "cgroup"
    return proc / "pressure" / "memory", "machine"


def _swapped(proc: Path) -> dict[str, int]:
    """Bytes in and out since the machine began; {} where they are not told."""
    swapped = {}
    with suppress(OSError, ValueError):
        for line in (proc / "vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in ("pswpin", "pswpout"):
                swapped[name] = int(value) * _PAGE_BYTES
    return swapped
