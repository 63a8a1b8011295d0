"""The machine as a whole: CPU, steal, memory, network, disks, clocks, pressure."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO, ClassVar

from inferbench_tasks.monitors.base import Monitor, Target

_TICKS = os.sysconf("SC_CLK_TCK")
_SECTOR_BYTES = 512
_CPUS = Path("/sys/devices/system/cpu")
_BLOCK = Path("/sys/block")
_CHUNK_BYTES = 65_536
#: So often what changes slowly, or is dear to read, is read: however slow the sampler has become, it is not slower.
_SELDOM_S = 1.0
#: A sample that comes so much earlier than it was meant to counts as that of its second.
_EARLY_S = 0.05


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
        "disk_read_bytes_total": "read from all disks that are devices (LVM, LUKS, md and loop lie on these), bytes",
        "disk_written_bytes_total": "written to all disks that are devices, bytes",
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
        self._seldom_s = -_SELDOM_S

    def sample(self) -> dict[str, float]:
        """CPU and memory each time; network, disks and clocks once a second."""
        figures = self._cpu() | self._memory()
        now_s = time.monotonic()
        if now_s - self._seldom_s >= _SELDOM_S - _EARLY_S:
            self._seldom_s = now_s
            figures |= self._network() | self._disks() | self._frequency() | self._pressure()
        return figures

    def close(self) -> None:
        """Close the files under /proc that were kept open between samples."""
        for file in self._files.values():
            file.close()

    def _read(self, name: str, most: int | None = None) -> bytes:
        """The whole file; of one whose beginning tells all its first bytes, at most so many."""
        file = self._files.get(name)
        if file is None:
            return b""
        file.seek(0)
        return whole(file) if most is None else file.read(most) or b""

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
        # A partition's traffic is its disk's too, and that of a volume (LVM, LUKS, md, loop, zram) is that of the disk
        # below, or of memory: only whole disks have a folder in /sys/block, and only those that are devices name it.
        disks = [row for row in rows if os.path.exists(_BLOCK / row[2].decode() / "device")]
        return {
            "disk_read_bytes_total": float(sum(int(row[5]) for row in disks)) * _SECTOR_BYTES,
            "disk_written_bytes_total": float(sum(int(row[9]) for row in disks)) * _SECTOR_BYTES,
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


def whole(file: IO[bytes]) -> bytes:
    """What is left of an unbuffered file: of most of those under /proc one reading gives about a page, however much is
    asked for (``seq_file``).
    """
    parts = []
    while part := file.read(_CHUNK_BYTES):
        parts.append(part)
    return b"".join(parts)
