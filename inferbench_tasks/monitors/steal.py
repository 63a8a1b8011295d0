"""What the hypervisor took of cores, by the kernel's count."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

#: Steal: the share of cores' time that the hypervisor gave to others. From the second on what was measured meanwhile
#: is disturbed, whatever it is; the first is worth noting.
STEAL_WARN_RATIO, STEAL_QUARANTINE_RATIO = 0.01, 0.05
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
#: The steal column of a line of /proc/stat, behind the name.
_STEAL = 8


class StolenTime:
    """What was taken of these cores since this was made; of all that the kernel counts where these are not among them.

    The kernel tells whole ticks of 10 ms, so a tick of each core's may have begun before: it is not counted.
    """

    def __init__(self, cores: Collection[int], stat: Path = Path("/proc/stat")) -> None:
        self._names = {f"cpu{core}" for core in cores}
        self._stat = stat
        self._before = self._ticks()

    def least_ns(self) -> int | None:
        """Of each core so much at least, the mean, ns; None where the kernel does not tell."""
        now = self._ticks()
        grown = [max(0, now[name] - ticks - 1) for name, ticks in self._before.items() if name in now]
        return sum(grown) * _TICK_NS // len(grown) if grown else None

    def _ticks(self) -> dict[str, int]:
        """Core -> ticks that were taken of it since the machine began."""
        try:
            text = self._stat.read_text()
        except OSError:
            return {}
        lines = [line.split() for line in text.splitlines() if line.startswith("cpu") and line[3].isdigit()]
        every = {line[0]: int(line[_STEAL]) for line in lines if len(line) > _STEAL}
        mine = {name: ticks for name, ticks in every.items() if name in self._names}
        return mine if mine.keys() == self._names else every
