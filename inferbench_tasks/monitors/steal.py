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


#: Of the machine, those that are switched off too.
_CORES = os.sysconf("SC_NPROCESSORS_CONF")


class StolenTime:
    """What was taken of these cores since this was made.

    The kernel tells whole ticks of 10 ms, so a tick of each core's may have begun before: it is not counted.
    ``machine_cores``: where not so many are counted, some container shows its own under numbers of its own, and which
    line is which core's is not known.
    """

    def __init__(
        self, cores: Collection[int], stat: Path = Path("/proc/stat"), machine_cores: int = _CORES
    ) -> None:
        self._names = {f"cpu{core}" for core in cores}
        self._stat, self._machine_cores = stat, machine_cores
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
        every = {line[0]: int(line[_STEAL]) for line in lines if len(line) > _STEAL}
        if len(every) != self._machine_cores or not self._names <= every.keys():
            return {}
        return {name: every[name] for name in self._names}
