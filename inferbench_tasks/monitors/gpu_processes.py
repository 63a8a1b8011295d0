"""Whose the processes on a GPU are: the server's, its neighbours' on a shared device, or somebody else's."""

from __future__ import annotations

import os
from collections.abc import Iterable

from inferbench_tasks.monitors.process_group import ProcessGroup

#: MPS's own server shows up beside its clients; those are what counts.
_MPS = "nvidia-cuda-mps"


class GpuProcesses:
    """``server``, ``beside``: the leading processes of the measured server and of its neighbours."""

    def __init__(self, server: int, beside: Iterable[int]) -> None:
        self._server = ProcessGroup(server, session=True)
        self._beside = [ProcessGroup(pid, session=True) for pid in beside]
        self._foreign: set[int] = set()

    def sample(self, pids: set[int]) -> dict[str, float]:
        """``pids``: those that NVML tells. Where one is of another PID namespace, only their number means anything."""
        figures = {"processes": float(len(pids))}
        if all(pid > 0 and os.path.exists(f"/proc/{pid}") for pid in pids):
            figures["foreign_processes"] = float(len(self._foreign_of(pids)))
        elif self._beside:
            self._scan()
            figures["beside_processes"] = float(sum(len(group.pids) for group in self._beside))
        return figures

    def _foreign_of(self, pids: set[int]) -> set[int]:
        # Groups grow: they are read again (all of /proc) only for a process that was not seen before.
        if pids - self._ours() - self._foreign:
            self._scan()
            self._foreign = {pid for pid in pids - self._ours() if not _name(pid).startswith(_MPS)}
        return self._foreign & pids - self._ours()

    def _ours(self) -> set[int]:
        return self._server.pids.union(*(group.pids for group in self._beside))

    def _scan(self) -> None:
        for group in (self._server, *self._beside):
            group.scan()


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""  # it ended
