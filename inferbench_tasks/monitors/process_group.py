"""A group of processes as one: CPU, memory, threads; read from /proc and the processes' CPU clocks."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping

from inferbench_tasks.monitors.schedstat import parse

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: How often new processes are looked for; a process that lives shorter may be missed.
_RESCAN_NS = 1_000_000_000
#: Fields of /proc/PID/stat after the command's name; the children's are of those that were waited for, with theirs.
_PPID, _SESSION, _CHILDREN, _THREADS, _RSS = 1, 3, slice(13, 15), 17, 21
_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

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
    difference between two samples is exact however close they are. Of a session's processes that ended, what nobody saw
    of them (a loader's process of an epoch that is shorter than two looks) is told by who waited for them, to 20 ms.
    Resident memory is the sum of RSS: pages that processes share count once in each. PSS would not, but reading it
    walks a process's page tables under a lock that the process needs.
    """

    def __init__(self, leader: int, *, session: bool, excluded: Callable[[], set[int]] = set) -> None:
        self._leader = leader
        self._session = session
        self._excluded = excluded
        self.pids: set[int] = set()
        self._cpu_ns: dict[int, int] = {}
        #: Of each process its parent and what its children had used that it waited for; of a parent what was counted of
        #: children that are gone, until it tells of them.
        self._parents: dict[int, int] = {}
        self._waited_for_ns: dict[int, int] = {}
        self._counted_ns: dict[int, int] = {}
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
        if self._session:
            for pid in self._cpu_ns.keys() - self.pids:
                self._ended(pid)
        # First what is told of children: of one that is gone at its turn below it is told then, or later.
        stats = {pid: fields for pid in self.pids if (fields := _stat_of(pid)) is not None}
        for pid in self.pids:
            try:
                cpu_ns = time.clock_gettime_ns(_cpu_clock(pid))
                fields = stats[pid]
            except (OSError, KeyError):
                self._ended(pid)  # what it used until the last sample stays in the total
                stats.pop(pid, None)
                continue
            # A process found later has its whole life counted: it is a child of the group.
            self._used_ns += max(0, cpu_ns - self._cpu_ns.get(pid, cpu_ns if self._last is None else 0))
            self._cpu_ns[pid] = cpu_ns
            rss_pages += int(fields[_RSS])
            threads += int(fields[_THREADS])
            processes += 1
        if self._session:
            self._used_ns += self._unseen_ns(stats)
            self._parents = {pid: self._parents[pid] for pid in stats}
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

    @property
    def each_ns(self) -> dict[int, int]:
        """The CPU time of each process in its life, ns, as it was when they were last looked at."""
        return dict(self._cpu_ns)

    def _ended(self, pid: int) -> None:
        """Who waited for it will tell of all that it used in its life, or has: its parent, or, where that ended as well
        before it told, whoever waited for that one."""
        used_ns = self._cpu_ns.pop(pid, None) if self._session else None
        if used_ns is not None:
            used_ns += self._waited_for_ns.pop(pid, 0) + self._counted_ns.pop(pid, 0)
            parent = self._parents.get(pid, 0)
            for _ in self._parents:  # a number that was given anew might lead around in a circle
                if parent in self._cpu_ns or parent not in self._parents:
                    break
                parent = self._parents[parent]
            self._counted_ns[parent] = self._counted_ns.get(parent, 0) + used_ns

    def _unseen_ns(self, stats: Mapping[int, list[bytes]]) -> int:
        """What children used that are gone, beyond what was counted of them while they were there."""
        unseen_ns = 0
        for pid, fields in stats.items():
            self._parents[pid] = int(fields[_PPID])
            told_ns = sum(map(int, fields[_CHILDREN])) * _TICK_NS
            # Of a process that is found later its whole life counts, as its own CPU time does.
            new_ns = told_ns - self._waited_for_ns.get(pid, told_ns if self._last is None else 0)
            self._waited_for_ns[pid] = told_ns
            if new_ns > 0:
                counted_ns = self._counted_ns.pop(pid, 0)
                unseen_ns += max(0, new_ns - counted_ns)
                if counted_ns > new_ns:
                    self._counted_ns[pid] = counted_ns - new_ns
        return unseen_ns

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


class Together:
    """Which processes several groups have."""

    def __init__(self, groups: Iterable[ProcessGroup]) -> None:
        self._groups = tuple(groups)

    @property
    def pids(self) -> set[int]:
        """Of all groups, as they were when they were last looked at."""
        return {pid for group in self._groups for pid in group.pids}

    def scan(self) -> None:
        """Look for the members of each."""
        for group in self._groups:
            group.scan()


def _cpu_clock(pid: int) -> int:
    """The clock id of a process's CPU time, as ``clock_getcpuclockid`` makes it (Linux)."""
    return (~pid << 3) | 2


def _stat_of(pid: int) -> list[bytes] | None:
    """None of a process that has ended."""
    try:
        return _stat(pid)
    except OSError:
        return None


def _stat(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
        content = file.read(1024)
    # The name may hold spaces and parentheses; the last one ends it.
    return content[content.rindex(b")") + 2 :].split()
