"""The processes of the servers, of what stands before them, and the client's: each as one group."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import ClassVar

from inferbench_tasks.monitors.base import Monitor, Target
from inferbench_tasks.monitors.process_group import GROUP_METRICS, ProcessGroup, Together

#: Of each of several servers: what is kept beside the sum.
_EACH = ("cpu_s_total", "waited_s_total", "rss_bytes")


class ServerMonitor(Monitor):
    """CPU, memory and threads of a server's whole process group, see ``ProcessGroup``; of several servers that answer
    together the sums, and beside them each one's own.
    """

    source: ClassVar[str] = "server"
    metrics: ClassVar[dict[str, str]] = {
        **GROUP_METRICS,
        **{f"replica<N>_{name}": f"of replica N alone: {GROUP_METRICS[name]}" for name in _EACH},
    }

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._groups = [ProcessGroup(pid, session=True) for pid in (target.pid, *target.replicas)]
        self._waited_s: list[float | None] = [None for _ in self._groups]

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """The reason why a process cannot be read from /proc; None where all can."""
        gone = [pid for pid in (target.pid, *target.replicas) if not os.path.exists(f"/proc/{pid}/stat")]
        return f"process {gone[0]} is not running" if gone else None

    def sample(self) -> dict[str, float]:
        """The figures; nothing once one of the groups has ended: what is left is not the sum."""
        each = [group.sample() for group in self._groups]
        if len(each) == 1:
            return each[0]
        if not all(each):
            return {}
        sums = {name: sum(one[name] for one in each) for name in each[0] if all(name in one for one in each)}
        sums.pop("waited_s_total", None)
        return sums | self._waited(each) | _own(each)

    def _waited(self, each: Sequence[dict[str, float]]) -> dict[str, float]:
        """Waits are read once a second, by each group in its own time: what another told last still holds."""
        new = [one.get("waited_s_total") for one in each]
        self._waited_s = [
            now if now is not None else last for now, last in zip(new, self._waited_s, strict=True)
        ]
        known = [waited for waited in self._waited_s if waited is not None]
        if len(known) < len(each) or all(waited is None for waited in new):
            return {}
        return {"waited_s_total": sum(known)}


def _own(each: Sequence[dict[str, float]]) -> dict[str, float]:
    return {
        f"replica{number}_{name}": one[name]
        for number, one in enumerate(each, 1)
        for name in _EACH
        if name in one
    }


class BalancerMonitor(Monitor):
    """The same of what stands before several servers: no part of what they use.

    A process of it has one thread and keeps the connections that it took, be they all: so the busiest by itself, too.
    """

    source: ClassVar[str] = "balancer"
    metrics: ClassVar[dict[str, str]] = {
        **GROUP_METRICS,
        "busiest_s_total": "CPU that the busiest of its processes used since the monitor started, s",
    }

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._group = ProcessGroup(target.balancer, session=True)
        self._before_ns: dict[int, int] = {}
        self._busiest_ns = 0

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """The reason why the process cannot be read from /proc; None where it can."""
        if not target.balancer:
            return "nothing stands before the server"
        there = os.path.exists(f"/proc/{target.balancer}/stat")
        return None if there else f"process {target.balancer} is not running"

    def sample(self) -> dict[str, float]:
        """The group's figures; nothing once the group has ended."""
        if not (figures := self._group.sample()):
            return {}
        each_ns, first = self._group.each_ns, not self._before_ns
        for pid, used_ns in each_ns.items():  # of one that is found later its whole life counts
            self._before_ns.setdefault(pid, used_ns if first else 0)
        since_ns = (used_ns - self._before_ns[pid] for pid, used_ns in each_ns.items())
        self._busiest_ns = max((self._busiest_ns, *since_ns))
        return figures | {"busiest_s_total": self._busiest_ns / 1e9}


class ClientMonitor(Monitor):
    """The same of the load: the process that started the sampler and all its children, the sampler among
    them, what is under test not. What a machine did beside server and client is foreign.
    """

    source: ClassVar[str] = "client"
    metrics: ClassVar[dict[str, str]] = GROUP_METRICS

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._tested = Together(ProcessGroup(pid, session=True) for pid in target.tested)
        self._group = ProcessGroup(os.getppid(), session=False, excluded=self._tested_pids)

    def sample(self) -> dict[str, float]:
        """The figures of the load's process group at this moment."""
        return self._group.sample()

    def _tested_pids(self) -> set[int]:
        self._tested.scan()
        return self._tested.pids
