"""What the machine takes from server and sender, in fine steps: waits for a core, stolen time, pressure."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from inferbench_tasks.monitors.base import Monitor, Target
from inferbench_tasks.monitors.process_group import ProcessGroup

_TICKS = os.sysconf("SC_CLK_TCK")
#: How often new threads are looked for.
_RESCAN_NS = 1_000_000_000
#: The steal column of a line of /proc/stat, behind the name.
_STEAL = 8


class Threads:
    """The run delays of a group's threads, those of one process left out (``without``).

    Their files stay open: a reading costs some microseconds a thread.

    The kernel adds a wait to a thread's delay when the thread gets its core, so a wait shows whole, at its end.
    """

    def __init__(self, group: ProcessGroup, without: int | None = None) -> None:
        self._group = group
        self._without = without
        self._files: dict[tuple[int, int], int] = {}
        self._delay_ns: dict[tuple[int, int], int] = {}
        self._waited_ns = 0

    def find(self) -> None:
        """Open what is new; of a thread that began since then, its waits count from now on."""
        self._group.scan()
        for pid in self._group.pids - {self._without}:
            try:
                names = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue  # it ended
            for name in names:
                key = (pid, int(name))
                if key not in self._files:
                    try:
                        self._files[key] = os.open(f"/proc/{pid}/task/{name}/schedstat", os.O_RDONLY)
                    except OSError:
                        continue  # it ended, or the kernel keeps no such statistics

    def sample(self) -> tuple[float, float] | None:
        """All waits since the first sample, and the longest of one thread since the last, s; None without threads."""
        longest_ns = 0
        for key, file in list(self._files.items()):
            try:
                delay_ns = int(os.pread(file, 100, 0).split()[1])
            except (OSError, IndexError):  # it ended
                os.close(self._files.pop(key))
                self._delay_ns.pop(key, None)
                continue
            wait_ns = delay_ns - self._delay_ns.get(key, delay_ns)
            self._delay_ns[key] = delay_ns
            self._waited_ns += wait_ns
            longest_ns = max(longest_ns, wait_ns)
        return (self._waited_ns / 1e9, longest_ns / 1e9) if self._files else None

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()


class WaitMonitor(Monitor):
    """Every 20 ms: a disturbance of some milliseconds shows, and to which requests it happened."""

    source: ClassVar[str] = "wait"
    interval_s: ClassVar[float] = 0.02
    fine: ClassVar[bool] = True
    metrics: ClassVar[dict[str, str]] = {
        "server_s_total": "time in which the server's threads were ready to run and waited for a core, s",
        "server_longest_s": "the longest that one of the server's threads waited since the last sample, s",
        "sender_s_total": "the same of the sender's threads, s",
        "sender_longest_s": "the longest that one of the sender's threads waited since the last sample, s",
        "steal_s_total": "CPU time taken by the hypervisor, all cores, s (in ticks of 10 ms)",
        "pressure_s_total": "time in which some task of the machine waited for a core, s (PSI)",
        "server_pressure_s_total": "time in which some task of the server's cgroup waited for a core, s (PSI)",
    }

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        server = ProcessGroup(target.pid, session=True)

        def others() -> set[int]:
            return {*server.pids, *target.beside, os.getpid()}

        self._groups = {
            "server": Threads(server),
            # What started the sampler only follows the load: its waits are no request's.
            "sender": Threads(
                ProcessGroup(os.getppid(), session=False, excluded=others), without=os.getppid()
            ),
        }
        self._readings: list[tuple[str, int, Callable[[bytes], float]]] = []
        for name, path, read in (
            ("steal_s_total", Path("/proc/stat"), _stolen_s),
            ("pressure_s_total", Path("/proc/pressure/cpu"), _pressure_s),
            ("server_pressure_s_total", cgroup_pressure(target.pid), _pressure_s),
        ):
            if path is not None and path.exists():
                self._readings.append((name, os.open(path, os.O_RDONLY), read))
        self._looked_ns = 0

    def sample(self) -> dict[str, float]:
        """The figures of this moment; those of a group without threads are left out."""
        now_ns = time.monotonic_ns()
        if now_ns - self._looked_ns >= _RESCAN_NS:
            self._looked_ns = now_ns
            for threads in self._groups.values():
                threads.find()
        figures: dict[str, float] = {}
        for name, threads in self._groups.items():
            if (waits := threads.sample()) is not None:
                figures[f"{name}_s_total"], figures[f"{name}_longest_s"] = waits
        for name, file, read in self._readings:
            figures[name] = read(os.pread(file, 400, 0))
        return figures

    def close(self) -> None:
        """Close the files."""
        for threads in self._groups.values():
            threads.close()
        for _, file, _ in self._readings:
            os.close(file)


def cgroup_pressure(pid: int) -> Path | None:
    """Where the kernel tells the pressure on the CPU of that process's cgroup; None without one of its own (v2)."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    return None if own == "/" else Path("/sys/fs/cgroup") / own.lstrip("/") / "cpu.pressure"


def _stolen_s(text: bytes) -> float:
    return int(text.split(b"\n", 1)[0].split()[_STEAL]) / _TICKS


def _pressure_s(text: bytes) -> float:
    return int(text.split(b"\n", 1)[0].rsplit(b"total=", 1)[1]) / 1e6
