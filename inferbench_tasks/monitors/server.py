"""The server's processes and the client's: each as one group."""

from __future__ import annotations

import os
from typing import ClassVar

from inferbench_tasks.monitors.base import Monitor, Target
from inferbench_tasks.monitors.process_group import GROUP_METRICS, ProcessGroup


class ServerMonitor(Monitor):
    """CPU, memory and threads of a server's whole process group, see ``ProcessGroup``."""

    source: ClassVar[str] = "server"
    metrics: ClassVar[dict[str, str]] = GROUP_METRICS

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._group = ProcessGroup(target.pid, session=True)

    @classmethod
    def unavailable(cls, target: Target) -> str | None:
        """The reason why the process cannot be read from /proc; None where it can."""
        return None if os.path.exists(f"/proc/{target.pid}/stat") else f"process {target.pid} is not running"

    def sample(self) -> dict[str, float]:
        """The group's figures; nothing once the group has ended."""
        return self._group.sample()


class ClientMonitor(Monitor):
    """The same of the load: the process that started the sampler and all its children, the sampler among
    them, the server not. What a machine did beside server and client is foreign.
    """

    source: ClassVar[str] = "client"
    metrics: ClassVar[dict[str, str]] = GROUP_METRICS

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._server = ProcessGroup(target.pid, session=True) if target.pid else None
        self._group = ProcessGroup(os.getppid(), session=False, excluded=self._server_pids)

    def sample(self) -> dict[str, float]:
        """The figures of the server's process group at this moment."""
        return self._group.sample()

    def _server_pids(self) -> set[int]:
        if self._server is None:
            return set()
        self._server.scan()
        return self._server.pids
