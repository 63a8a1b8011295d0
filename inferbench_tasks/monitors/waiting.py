"""What the machine takes from server and sender, in fine steps: waits for a core, stolen time, pressure, interrupts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from inferbench_tasks.monitors.base import Monitor, Target
from inferbench_tasks.monitors.machine_cpu import ForeignCpu, MachineCpu
from inferbench_tasks.monitors.process_group import ProcessGroup, Together
from inferbench_tasks.monitors.schedstat import RunDelays
from inferbench_tasks.monitors.steal import STEAL_COLUMN

_TICKS = os.sysconf("SC_CLK_TCK")
#: How often new threads are looked for, if any process or thread of the machine began since then.
_RESCAN_NS = 1_000_000_000
#: How much longer the counts may get that stand before the sum of the interrupts, and it itself.
_SLACK_BYTES = 4096


class Threads:
    """The run delays of a group's threads, those of one process left out (``without``)."""

    def __init__(self, group: ProcessGroup | Together, without: int | None = None) -> None:
        self._group = group
        self._without = without
        self._delays = RunDelays()

    @property
    def pids(self) -> set[int]:
        """The group's processes, with the one whose threads are left out."""
        return self._group.pids

    def find(self) -> None:
        """Look for what is new; of a thread that began since then, its waits count from now on."""
        self._group.scan()
        for pid in self._group.pids - {self._without}:
            try:
                names = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue  # it ended
            for name in names:
                self._delays.watch((pid, int(name)), Path(f"/proc/{pid}/task/{name}/schedstat"))

    def sample(self) -> tuple[float, float] | None:
        """All waits since the first sample, and the longest of one thread since the last, s; None without threads."""
        longest_ns = self._delays.read()
        return None if longest_ns is None else (self._delays.waited_ns / 1e9, longest_ns / 1e9)

    @property
    def runs_total(self) -> int:
        """How often one of the threads got a core since the first sample."""
        return self._delays.runs

    def close(self) -> None:
        """Close the files."""
        self._delays.close()


class WaitMonitor(Monitor):
    """Every 40 ms: a disturbance of some milliseconds shows, and to which requests it happened."""

    source: ClassVar[str] = "wait"
    interval_s: ClassVar[float] = 0.04
    fine: ClassVar[bool] = True
    metrics: ClassVar[dict[str, str]] = {
        "server_s_total": "time in which the server's threads were ready to run and waited for a core, s",
        "server_longest_s": "the longest that one of the server's threads waited since the last sample, s",
        "balancer_s_total": "the same of what stands before several servers, s",
        "balancer_longest_s": "the longest that one of its threads waited since the last sample, s",
        "sender_s_total": "the same of the sender's threads, s",
        "sender_longest_s": "the longest that one of the sender's threads waited since the last sample, s",
        "sender_runs_total": "how often one of the sender's threads got a core, number",
        "steal_s_total": "CPU time taken by the hypervisor, all cores, s (in ticks of 10 ms)",
        "pressure_s_total": "time in which some task of the machine waited for a core, s (PSI)",
        "server_pressure_s_total": "time in which some task of the server's cgroup waited for a core, s (PSI)",
        "io_pressure_s_total": "time in which some task of the machine waited for a disk, s (PSI)",
        "memory_pressure_s_total": "time in which some task of the machine waited for memory, s (PSI)",
        "interrupts_total": "interrupts of all kinds on all cores, number",
        "foreign_s_total": "CPU time of all that is neither server nor load, all cores, s (in ns)",
    }

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        servers = Together(ProcessGroup(pid, session=True) for pid in target.servers)
        balancer = Together(ProcessGroup(pid, session=True) for pid in (target.balancer,) if pid)

        def others() -> set[int]:
            return {*servers.pids, *balancer.pids, *target.beside, os.getpid()}

        self._groups = {"server": Threads(servers)} if target.pid else {}
        if target.balancer:
            self._groups["balancer"] = Threads(balancer)
        if target.side != "server":
            # What started the sampler only follows the load: its waits are no request's.
            self._groups["sender"] = Threads(
                ProcessGroup(os.getppid(), session=False, excluded=others), without=os.getppid()
            )
        self._readings: list[tuple[str, int, Callable[[bytes], float]]] = []
        for name, path in (
            ("pressure_s_total", Path("/proc/pressure/cpu")),
            ("server_pressure_s_total", cgroup_pressure(target.pid) if target.pid else None),
            ("io_pressure_s_total", Path("/proc/pressure/io")),
            ("memory_pressure_s_total", Path("/proc/pressure/memory")),
        ):
            if path is not None and path.exists():
                self._readings.append((name, os.open(path, os.O_RDONLY), _pressure_s))
        self._stat = os.open("/proc/stat", os.O_RDONLY)
        # What follows the sum of all interrupts is one number for each kind: thousands, and not needed.
        self._stat_bytes = os.pread(self._stat, 1 << 20, 0).index(b"\nintr ") + _SLACK_BYTES
        self._machine = MachineCpu()
        self._foreign = ForeignCpu(self._machine) if self._machine.known else None
        self._looked_ns = 0
        self._newest = b""

    def sample(self) -> dict[str, float]:
        """The figures of this moment; those of a group without threads are left out."""
        now_ns = time.monotonic_ns()
        if now_ns - self._looked_ns >= _RESCAN_NS:
            self._looked_ns = now_ns
            self._find()
        figures: dict[str, float] = {}
        if self._foreign is not None:
            # The sampler and what started it are the load's.
            own = {os.getpid(), os.getppid()}.union(*(threads.pids for threads in self._groups.values()))
            figures["foreign_s_total"] = self._foreign.sample(own)
        for name, threads in self._groups.items():
            if (waits := threads.sample()) is not None:
                figures[f"{name}_s_total"], figures[f"{name}_longest_s"] = waits
                if name == "sender":
                    figures["sender_runs_total"] = float(threads.runs_total)
        for name, file, read in self._readings:
            figures[name] = read(os.pread(file, 400, 0))
        return figures | _stolen_and_interrupts(os.pread(self._stat, self._stat_bytes, 0))

    def _find(self) -> None:
        """Look for new threads, unless the newest of the machine is the one that was the newest then."""
        newest = Path("/proc/loadavg").read_bytes().split()[-1]
        if newest == self._newest:
            return
        self._newest = newest
        for threads in self._groups.values():
            threads.find()
        self._machine.find()

    def close(self) -> None:
        """Close the files."""
        for threads in self._groups.values():
            threads.close()
        for _, file, _ in self._readings:
            os.close(file)
        os.close(self._stat)
        self._machine.close()


def cgroup_pressure(pid: int) -> Path | None:
    """Where the kernel tells the pressure on the CPU of that process's cgroup; None without one of its own (v2)."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return None
    own = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), "/")
    return None if own == "/" else Path("/sys/fs/cgroup") / own.lstrip("/") / "cpu.pressure"


def _stolen_and_interrupts(text: bytes) -> dict[str, float]:
    """Of a text of /proc/stat, as far as the sum of the interrupts."""
    return {
        "steal_s_total": int(text[: text.index(b"\n")].split()[STEAL_COLUMN]) / _TICKS,
        "interrupts_total": float(text[text.index(b"\nintr ") + 6 :].split(None, 1)[0]),
    }


def _pressure_s(text: bytes) -> float:
    return int(text.split(b"\n", 1)[0].rsplit(b"total=", 1)[1]) / 1e6
