"""A group of processes as one: CPU, memory, threads; read from /proc and the processes' CPU clocks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from inferbench_tasks.monitors.schedstat import parse

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: How often new processes are looked for; a process that lives shorter may be missed.
_RESCAN_NS = 1_000_000_000
#: Fields of /proc/PID/stat after the command's name.
_PPID, _SESSION, _THREADS, _RSS = 1, 3, 17, 21

#: What a group's ``sample`` gives.
GROUP_METRICS = {
    "cpu_cores": "CPU used since the last sample, cores",
    "cpu_s_total": "CPU used since the monitor started, s",
    "waited_s_total": "time in which threads were ready to run and waited for a core, s (each second)",
    "rss_bytes": "resident memory, sum over the processes, bytes",
    "threads": "threads",
    "processes": "processes",
}


class ProcessGroup:
    """A leader, its descendants, and its session where ``session`` is set; without those ``excluded()`` names.

    CPU time comes from each process's CPU clock (ns resolution, all its threads, ended ones too), so a
    difference between two samples is exact however close they are. Resident memory is the sum of
    RSS: pages that processes share count once in each. PSS would not, but reading it walks a process's page
    tables under a lock that the process needs.
    """

    def __init__(self, leader: int, *, session: bool, excluded: Callable[[], set[int]] = set) -> None:
        self._leader = leader
        self._session = session
        self._excluded = excluded
        self.pids: set[int] = set()
        self._cpu_ns: dict[int, int] = {}
        self._scanned_ns = 0
        self._used_ns = 0
        self._waited_ns: dict[int, int] = {}
        self._waited_before_ns: int | None = None
        self._last: tuple[int, int] | None = None

    def sample(self) -> dict[str, float]:
        """The group's figures; nothing once the group has ended."""
        now_ns = time.monotonic_ns()
        waited_s = None
        if now_ns - self._scanned_ns >= _RESCAN_NS:
            self.scan()
            self._scanned_ns = now_ns
            waited_s = self._wait_s()
        rss_pages = threads = processes = 0
        for pid in self.pids:
            try:
                cpu_ns = time.clock_gettime_ns(_cpu_clock(pid))
                fields = _stat(pid)
            except OSError:
                continue  # it ended; what it used until the last sample stays in the total
            # A process found later has its whole life counted: it is a child of the group.
            self._used_ns += max(0, cpu_ns - self._cpu_ns.get(pid, cpu_ns if self._last is None else 0))
            self._cpu_ns[pid] = cpu_ns
            rss_pages += int(fields[_RSS])
            threads += int(fields[_THREADS])
            processes += 1
        read_ns = time.monotonic_ns()
        if not processes:
            return {}
        figures = {
            "cpu_s_total": self._used_ns / 1e9,
            "rss_bytes": float(rss_pages * _PAGE_BYTES),
            "threads": float(threads),
            "processes": float(processes),
        }
        if waited_s is not None:
            figures["waited_s_total"] = waited_s
        if self._last is not None and read_ns > self._last[0]:
            figures["cpu_cores"] = (self._used_ns - self._last[1]) / (read_ns - self._last[0])
        self._last = (read_ns, self._used_ns)
        return figures

    def _wait_s(self) -> float | None:
        """From each thread's schedstat; what a thread waited stays counted when it ends. None without one."""
        for pid in self.pids:
            try:
                threads = os.listdir(f"/proc/{pid}/task")
            except OSError:
                continue  # it ended
            for thread in threads:
                try:
                    with open(f"/proc/{pid}/task/{thread}/schedstat", "rb", buffering=0) as file:
                        self._waited_ns[int(thread)] = parse(file.read(100)).waited_ns
                except (OSError, ValueError):
                    continue  # it ended, or the kernel keeps no such statistics
        total = sum(self._waited_ns.values())
        if self._waited_before_ns is None:
            self._waited_before_ns = total
        return (total - self._waited_before_ns) / 1e9 if self._waited_ns else None

    def scan(self) -> None:
        """Find the members: the leader, its session, and all that descend from a member."""
        excluded = self._excluded()
        parents: dict[int, list[int]] = {}
        members = set()
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            try:
                fields = _stat(int(name))
            except OSError:
                continue  # it ended between the two looks
            parents.setdefault(int(fields[_PPID]), []).append(int(name))
            in_session = self._session and int(fields[_SESSION]) == self._leader
            if in_session or int(name) == self._leader:
                members.add(int(name))
        waiting = list(members)
        while waiting:
            for child in parents.get(waiting.pop(), ()):
                if child not in members and child not in excluded:
                    members.add(child)
                    waiting.append(child)
        self.pids = members


def _cpu_clock(pid: int) -> int:
    """The clock id of a process's CPU time, as ``clock_getcpuclockid`` makes it (Linux)."""
    return (~pid << 3) | 2


def _stat(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        content = file.read(1024)
    # The name may hold spaces and parentheses; the last one ends it.
    return content[content.rindex(b")") + 2 :].split()
