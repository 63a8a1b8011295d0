"""CPU time of a whole machine in nanoseconds, and of it what others than a few processes used.

/proc/stat counts in ticks of 10 ms, which tell nothing of a step of 40 ms. The root of the cgroups counts exactly, at
the same moments as the processes' own CPU clocks, so that the difference of the two is exact in every step.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
#: Version 1: the file that only the hierarchy's root has, so no cgroup that a container takes for its root.
_V1_ROOT = "release_agent"
#: Version 2: the file that every cgroup has but the root.
_V2_INNER = "cgroup.type"


class MachineCpu:
    """The CPU time of everything that runs on the machine, ns; of kernel threads only in cgroups of version 1."""

    def __init__(self, cgroups: Path = _CGROUPS) -> None:
        self._root = cgroups
        self._files: dict[Path, int] = {}
        self._total_ns = 0
        self._last_ns: dict[Path, int] = {}
        usage = cgroups / "cpuacct" / "cpuacct.usage"
        self._version = 0
        if usage.exists() and (usage.parent / _V1_ROOT).exists():
            self._version = 1
            self._open(usage)
        elif (cgroups / "cgroup.controllers").exists() and not (cgroups / _V2_INNER).exists():
            self._version = 2
            self.find()

    @property
    def known(self) -> bool:
        """Whether the kernel tells it here: not inside of a container, which sees no more than itself."""
        return bool(self._files)

    def find(self) -> None:
        """Open what is new; version 2 has no exact sum of its own: its outermost cgroups are added up."""
        if self._version == 2:
            for path in self._root.glob("*/cpu.stat"):
                if path not in self._files:
                    self._open(path)

    def sample_ns(self) -> int:
        """CPU time since the first sample, ns; what ended cgroups used stays in it."""
        for path, file in list(self._files.items()):
            try:
                text = os.pread(file, 100, 0)
            except OSError:  # the cgroup ended
                os.close(self._files.pop(path))
                self._last_ns.pop(path, None)
                continue
            now_ns = int(text) if self._version == 1 else int(text.split(None, 2)[1]) * 1000
            self._total_ns += max(0, now_ns - self._last_ns.get(path, now_ns))
            self._last_ns[path] = now_ns
        return self._total_ns

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()

    def _open(self, path: Path) -> None:
        try:
            self._files[path] = os.open(path, os.O_RDONLY)
        except OSError:
            return  # it ended, or is not for us


class ForeignCpu:
    """CPU time that all used but the processes which a sample names."""

    def __init__(self, machine: MachineCpu) -> None:
        self._machine = machine
        self._own_ns = 0
        self._last_ns: dict[int, int] = {}
        self._first = True
        self._foreign_ns = 0

    def sample(self, own_pids: Iterable[int]) -> float:
        """Since the first sample, s. A process that is named later counts as own with its whole life.

        It never falls: where own time shows later than the machine's, the difference is caught up with first.
        """
        total_ns = self._machine.sample_ns()
        for pid in own_pids:
            try:
                now_ns = time.clock_gettime_ns((~pid << 3) | 2)  # the clock of a process's CPU time (Linux)
            except OSError:
                continue  # it ended; what it used until the last sample stays in the total
            self._own_ns += max(0, now_ns - self._last_ns.get(pid, now_ns if self._first else 0))
            self._last_ns[pid] = now_ns
        self._first = False
        self._foreign_ns = max(self._foreign_ns, total_ns - self._own_ns)
        return self._foreign_ns / 1e9
