"""What the kernel bounds of each process in the sandbox: tasks, open files, the size of a file; and no core dumps."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks.sandbox import account
from inferbench_tasks.sandbox.limits import number

#: How many processes and threads a process in the sandbox may have with all that it started.
TASKS = "INFERBENCH_SANDBOX_TASKS"
TASKS_MOST = 4096.0
#: The share of what is free on a file system that it may fill, percent; a single file too.
ROOM = "INFERBENCH_SANDBOX_ROOM_PERCENT"
ROOM_PERCENT = 50.0
OPEN_FILES = 65536


@dataclass(frozen=True)
class Bounds:
    """Of one process. ``tasks``: of its user together, None where the kernel counts none (root's)."""

    tasks: int | None
    file_bytes: int
    files: int = OPEN_FILES

    @classmethod
    def of(cls, uid: int | None, folder: Path | None = None) -> Bounds:
        """As the settings are. ``folder``: where it writes; ``uid``: its own user, None where it is ours.

        The tasks that our user has already are added, since the kernel counts those too. InputError for a setting that
        is no number.
        """
        tasks: int | None = most_tasks()
        if uid is None:
            tasks = None if os.getuid() == 0 else most_tasks() + _tasks_of(os.getuid())
        return cls(tasks, most_room(folder or Path(tempfile.gettempdir())))

    def apply(self, pid: int = 0) -> None:
        """Set them, none above what it is already; a process that has ended has none."""
        limits = {
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_NOFILE: self.files,
            resource.RLIMIT_FSIZE: self.file_bytes,
        }
        if self.tasks is not None:
            limits[resource.RLIMIT_NPROC] = self.tasks
        for kind, most in limits.items():
            with suppress(ProcessLookupError):
                soft, hard = (_lower(value, most) for value in resource.prlimit(pid, kind))
                resource.prlimit(pid, kind, (soft, hard))


def most_tasks() -> int:
    """InputError for a setting that is no count."""
    return int(number(TASKS, TASKS_MOST, 4e6))


def most_room(folder: Path) -> int:
    """The bytes that it may fill of the file system of that folder, from now on. InputError for what is no share."""
    return int(shutil.disk_usage(folder).free * number(ROOM, ROOM_PERCENT, 100.0) / 100)


def unbounded() -> list[str]:
    """What the kernel does not bound here of processes that this one starts."""
    return (
        ["the number of processes (root without the right to give them a user of their own; watched)"]
        if os.getuid() == 0 and account.draw() is None
        else []
    )


def _lower(value: int, most: int) -> int:
    return most if value == resource.RLIM_INFINITY else min(value, most)


def _tasks_of(uid: int) -> int:
    total = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it ended meanwhile
                if entry.stat().st_uid == uid:
                    total += int(Path(entry.path, "stat").read_text().rpartition(")")[2].split()[17])
    return total
