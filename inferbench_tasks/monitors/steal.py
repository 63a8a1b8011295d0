"""What the hypervisor took of cores, by the kernel's count."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from inferbench_tasks.cores import listed

#: Steal: the share of cores' time that the hypervisor gave to others. From the second on what was measured meanwhile
#: is disturbed, whatever it is; the first is worth noting.
STEAL_WARN_RATIO, STEAL_QUARANTINE_RATIO = 0.01, 0.05
#: The steal column of a line of /proc/stat, behind the name.
STEAL_COLUMN = 8
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_CPUS = Path("/sys/devices/system/cpu")


class StolenTime:
    """What was taken of these cores since this was made.

    The kernel tells whole ticks of 10 ms, so a tick of each core's may have begun before: it is not counted.
    ``cpus``: where the kernel says which cores the machine has, and which are switched off. Where others are counted
    than those that are on, some container shows its own under numbers of its own, and which line is which core's is not
    known.
    """

    def __init__(self, cores: Collection[int], stat: Path = Path("/proc/stat"), cpus: Path = _CPUS) -> None:
        self._names = {f"cpu{core}" for core in cores}
        self._stat, self._cpus = stat, cpus
        self._before = self._ticks()

    def least_ns(self) -> int | None:
        """Of each core so much at least, the mean, ns; None where the kernel does not tell of each of them."""
        now = self._ticks()
        grown = [max(0, now[name] - ticks - 1) for name, ticks in self._before.items() if name in now]
        return sum(grown) * _TICK_NS // len(grown) if grown else None

    def _ticks(self) -> dict[str, int]:
        """Core -> ticks that were taken of it since the machine began; of all of the cores, or of none."""
        try:
            text = self._stat.read_text()
        except OSError:
            return {}
        lines = [line.split() for line in text.splitlines() if line.startswith("cpu") and line[3].isdigit()]
        every = {line[0]: int(line[STEAL_COLUMN]) for line in lines if len(line) > STEAL_COLUMN}
        if every.keys() != _online(self._cpus) or not self._names <= every.keys():
            return {}
        return {name: every[name] for name in self._names}


def _online(cpus: Path) -> set[str]:
    """The cores that are switched on, as /proc/stat calls them; none where that is not known for sure.

    A container whose cores are counted anew (by LXCFS) may be shown an ``online`` of its own, too; which cores there
    are, and which of them are off, it is shown as they are.
    """
    on, there = _listed(cpus / "online"), _listed(cpus / "present")
    off = _listed(cpus / "offline")
    return {f"cpu{core}" for core in on} if on == there - off else set()


def _listed(path: Path) -> set[int]:
    """None where there is no such file, which a kernel without hotplug has not."""
    try:
        return set(listed(path.read_text()))
    except OSError:
        return set()
