"""Energy of the processor packages by RAPL, where the kernel shows it (root, and rarely in a VM)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from inferbench_tasks.monitors.base import Monitor, Target

ROOT = Path("/sys/class/powercap")


class RaplMonitor(Monitor):
    """The sum over all packages; memory (``dram``) apart where there is a counter. The counters update about
    every ms and wrap around at ``max_energy_range_uj``; wraps between two samples are undone.
    """

    source: ClassVar[str] = "rapl"
    metrics: ClassVar[dict[str, str]] = {
        "package_j_total": "energy of all processor packages, J",
        "dram_j_total": "energy of the memory, J",
    }
    root: ClassVar[Path] = ROOT

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._zones = [(kind, folder, _range_uj(folder)) for kind, folder in zones(self.root)]
        self._last_uj: dict[Path, int] = {}
        self._total_uj = {"package": 0, "dram": 0}

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """The reason why RAPL can't be read; None where it can."""
        packages = zones(cls.root)
        if not packages:
            return f"{cls.root} has no intel-rapl zones: the kernel or the hypervisor does not show them"
        unreadable = [folder for _, folder in packages if not os.access(folder / "energy_uj", os.R_OK)]
        return f"{unreadable[0] / 'energy_uj'} can't be read: it needs root" if unreadable else None

    def sample(self) -> dict[str, float]:
        """The joules of each kind of zone since the monitor started."""
        for kind, folder, range_uj in self._zones:
            now_uj = int((folder / "energy_uj").read_text())
            passed = now_uj - self._last_uj.get(folder, now_uj)
            self._total_uj[kind] += passed if passed >= 0 else passed + range_uj
            self._last_uj[folder] = now_uj
        kinds = {kind for kind, _, _ in self._zones}
        return {f"{kind}_j_total": self._total_uj[kind] / 1e6 for kind in kinds}


def zones(root: Path) -> list[tuple[str, Path]]:
    """("package" or "dram", folder) of each counter; a package's cores are contained in it and left out."""
    packages = []
    for folder in sorted(root.glob("intel-rapl:*")):
        try:
            name = (folder / "name").read_text().strip()
        except OSError:
            continue  # a zone without a name is no counter
        kind = name.partition("-")[0]
        if kind in ("package", "dram"):
            packages.append((kind, folder))
    return packages


def _range_uj(folder: Path) -> int:
    return int((folder / "max_energy_range_uj").read_text()) + 1
