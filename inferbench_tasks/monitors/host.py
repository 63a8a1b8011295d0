"""The machine as a whole: CPU, steal, memory, network, disks, clocks, pressure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from inferbench_tasks.monitors.base import Monitor, Target

_TICKS = os.sysconf("SC_CLK_TCK")
_SECTOR_BYTES = 512
_CPUS = Path("/sys/devices/system/cpu")


class HostMonitor(Monitor):
    """From /proc and /sys. The kernel counts CPU time in ticks of 10 ms per core: a single sample's ratio
    is that coarse, differences of the ``_total`` counters over a window are not.
    """

    source: ClassVar[str] = "host"
    metrics: ClassVar[dict[str, str]] = {
        "cpu_ratio": "busy share of all cores since the last sample, 0 to 1, steal not counted as busy",
        "steal_ratio": "share of all cores taken by the hypervisor since the last sample, 0 to 1",
        "cpu_busy_s_total": "CPU time used, all cores, s",
        "cpu_steal_s_total": "CPU time taken by the hypervisor, all cores, s",
        "core<N>_busy_s_total": "CPU time used on core N, s",
        "core<N>_steal_s_total": "CPU time of core N taken by the hypervisor, s",
        "core<N>_frequency_mhz": "clock of core N, MHz, where the kernel tells it",
        "memory_available_bytes": "memory available without swapping, bytes",
        "network_received_bytes_total": "received on all interfaces, loopback included, bytes",
        "network_sent_bytes_total": "sent on all interfaces, loopback included, bytes",
        "disk_read_bytes_total": "read from all disks, bytes",
        "disk_written_bytes_total": "written to all disks, bytes",
        "frequency_mhz": "mean clock of the cores, MHz, where the kernel tells it",
        "cpu_pressure_s_total": "time in which some task waited for a core, s (PSI)",
    }

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._files = {
            name: open(path, "rb", buffering=0)  # noqa: SIM115 - held open for the monitor's life
            for name, path in (
                ("stat", "/proc/stat"),
                ("meminfo", "/proc/meminfo"),
                ("net", "/proc/net/dev"),
                ("disks", "/proc/diskstats"),
                ("pressure", "/proc/pressure/cpu"),
                ("cpuinfo", "/proc/cpuinfo"),
            )
            if os.path.exists(path)
        }
        self._clocks = sorted(_CPUS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"))
        self._last: tuple[float, float, float] | None = None
        self._turn = 0

    def sample(self) -> dict[str, float]:
        """CPU and memory each time; network, disks and clocks each tenth time."""
        figures = self._cpu() | self._memory()
        if self._turn % 10 == 0:
            figures |= self._network() | self._disks() | self._frequency() | self._pressure()
        self._turn += 1
        return figures

    def close(self) -> None:
        """Close the files under /proc that were kept open between samples."""
        for file in self._files.values():
            file.close()

    def _read(self, name: str, size: int = 65_536) -> bytes:
        file = self._files.get(name)
        if file is None:
            return b""
        file.seek(0)
        return file.read(size) or b""

    def _cpu(self) -> dict[str, float]:
        figures: dict[str, float] = {}
        for line in self._read("stat").split(b"\n"):
            if not line.startswith(b"cpu"):
                break
            name, *columns = line.split()
            # user nice system idle iowait irq softirq steal; guest time is contained in user.
            user, nice, system, idle, iowait, irq, softirq, steal = (int(c) / _TICKS for c in columns[:8])
            busy = user + nice + system + irq + softirq
            if name == b"cpu":
                figures["cpu_busy_s_total"], figures["cpu_steal_s_total"] = busy, steal
                whole = busy + idle + iowait + steal
                if self._last is not None and whole > self._last[0]:
                    passed = whole - self._last[0]
                    figures["cpu_ratio"] = max(0.0, busy - self._last[1]) / passed
                    figures["steal_ratio"] = max(0.0, steal - self._last[2]) / passed
                self._last = (whole, busy, steal)
            else:
                core = f"core{name[3:].decode()}"
                figures[f"{core}_busy_s_total"], figures[f"{core}_steal_s_total"] = busy, steal
        return figures

    def _memory(self) -> dict[str, float]:
        for line in self._read("meminfo", 512).split(b"\n"):
            if line.startswith(b"MemAvailable:"):
                return {"memory_available_bytes": float(line.split()[1]) * 1024}
        return {}

    def _network(self) -> dict[str, float]:
        rows = [line.split(b":")[1].split() for line in self._read("net").split(b"\n") if b":" in line]
        return {
            "network_received_bytes_total": float(sum(int(row[0]) for row in rows)),
            "network_sent_bytes_total": float(sum(int(row[8]) for row in rows)),
        }

    def _disks(self) -> dict[str, float]:
        rows = [line.split() for line in self._read("disks").split(b"\n") if line]
        # A partition's traffic is its disk's too: only whole disks, which have a folder in /sys/block.
        whole = [row for row in rows if os.path.exists(f"/sys/block/{row[2].decode()}")]
        return {
            "disk_read_bytes_total": float(sum(int(row[5]) for row in whole)) * _SECTOR_BYTES,
            "disk_written_bytes_total": float(sum(int(row[9]) for row in whole)) * _SECTOR_BYTES,
        }

    def _frequency(self) -> dict[str, float]:
        """From cpufreq; in a virtual machine, which has none, what the processor is said to run at."""
        if self._clocks:
            clocks_mhz = {path.parent.parent.name[3:]: int(path.read_text()) / 1000 for path in self._clocks}
        else:
            lines = [
                line.split(b":")[1]
                for line in self._read("cpuinfo").split(b"\n")
                if line.startswith(b"cpu MHz")
            ]
            clocks_mhz = {str(core): float(mhz) for core, mhz in enumerate(lines)}
        if not clocks_mhz:
            return {}
        each = {f"core{core}_frequency_mhz": mhz for core, mhz in clocks_mhz.items()}
        return {"frequency_mhz": sum(clocks_mhz.values()) / len(clocks_mhz), **each}

    def _pressure(self) -> dict[str, float]:
        for line in self._read("pressure", 512).split(b"\n"):
            if line.startswith(b"some"):
                return {"cpu_pressure_s_total": int(line.split(b"total=")[1]) / 1e6}
        return {}
