"""What a check of an installation says, and what it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import psutil
from pydantic import BaseModel

from inferbench_tasks import settings
from inferbench_tasks.launchers import records
from inferbench_tasks.perfdb import embedded
from inferbench_tasks.provider.system.local import LocalSystem


class Advice(BaseModel):
    """``finding``: somebody can do what they should not; ``note``: what to know, and what protects; ``ok``."""

    check: str
    level: Literal["ok", "note", "finding"]
    what: str
    remedy: str = ""


@dataclass(frozen=True)
class Installation:
    """A data directory with the processes that work on it, as they are now."""

    data_dir: Path

    @cached_property
    def system(self) -> LocalSystem:
        """The local system, up or not."""
        return LocalSystem(self.data_dir)

    @cached_property
    def processes(self) -> list[psutil.Process]:
        """All that works on the data directory: the system's processes, mongod, servers, and whatever names it."""
        pids = {p.pid for p in self.system.running()} | {p.pid for p in self.servers}
        if (server := embedded.status(self.data_dir))["running"]:
            pids.add(server["pid"])
        for process in psutil.process_iter():
            if environment(process).get(settings.DATA_DIR) == str(self.data_dir):
                pids.add(process.pid)
        return [process for pid in sorted(pids) for process in _family(pid)]

    @cached_property
    def servers(self) -> list[psutil.Process]:
        """The servers under test, with what they started: foreign models run in them."""
        handles = [
            r.server for r in records.read_all(settings.servers_dir(self.data_dir)).values() if r.server
        ]
        return [process for handle in handles if handle.pid for process in _family(handle.pid)]

    @cached_property
    def variables(self) -> dict[str, str]:
        """What the system's processes run with; empty where there is none."""
        path = self.system.home / "environment.json"
        return self.system.environment() if path.exists() else {}


Check = Callable[[Installation], Iterator[Advice]]


def environment(process: psutil.Process) -> dict[str, str]:
    """Of a process; empty where it is gone or another user's."""
    try:
        return process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return {}


def name_of(process: psutil.Process) -> str:
    """Program and pid, for people."""
    try:
        return f"{process.name()} (pid {process.pid})"
    except psutil.NoSuchProcess:
        return f"pid {process.pid}"


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []
