"""Looking at a process in the sandbox while it works: memory, tasks and room, of it with all that it started."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from inferbench_tasks.sandbox import group, limits, rlimits
from inferbench_tasks.sandbox.reach import SHARED_MEMORY

#: Where others would suffer: it has most of the memory that is used, and so little is left, percent of all.
LEFT_PERCENT = 2.0
MOST_SHARE = 0.5
#: More files than anything makes that is made, converted or served; and what a look at them may cost.
ENTRIES_MOST = 100_000
#: How often a server is looked at while nobody waits for it, in a load; and every how many looks for new processes.
LOADED_EVERY_S = 1.0
LOOKS = 5


@dataclass
class Watch:
    """A process, the user that is its own, if any, and the folders that it fills."""

    pid: int
    uid: int | None = None
    folders: tuple[Path, ...] = ()
    _rooms: dict[str, int] = field(default_factory=dict)
    _processes: list[group.Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder in (*self.folders, Path(SHARED_MEMORY)):
            with suppress(OSError):  # a folder that isn't there yet; no shared memory on this machine
                self._rooms[str(folder)] = rlimits.most_room(folder) + _bytes(folder, self._owner(folder))[0]

    def excess(self) -> str | None:
        """What it took too much of; None while it is within its limits, or gone."""
        return self.memory_or_tasks() or self._room()

    def memory_or_tasks(self, *, anew: bool = True) -> str | None:
        """Without a look at files; ``anew``: with one for new processes."""
        anew = anew or not self._processes
        self._processes = group.members(self.pid, self.uid) if anew else group.again(self._processes)
        processes = self._processes
        if not processes:
            return None
        most = rlimits.most_tasks()
        if (tasks := sum(process.tasks for process in processes)) > most:
            return f"had {tasks:,} processes and threads; allowed are {most:,} ({rlimits.TASKS})"
        return _memory(processes)

    def _room(self) -> str | None:
        for folder, most in self._rooms.items():
            used, entries = _bytes(Path(folder), self._owner(Path(folder)))
            if entries > ENTRIES_MOST:
                return f"made more than {ENTRIES_MOST:,} files in {folder}"
            if used > most:
                return (
                    f"filled {used / 2**20:,.0f} MiB of {folder}; allowed are {most / 2**20:,.0f}, of what was free "
                    f"when it began {limits.number(rlimits.ROOM, rlimits.ROOM_PERCENT, 100.0):g}% ({rlimits.ROOM})"
                )
        return None

    def _owner(self, folder: Path) -> int | None:
        """Whose files count there: shared memory is everybody's. -1 where they can't be told apart."""
        if str(folder) != SHARED_MEMORY:
            return None
        return -1 if self.uid is None else self.uid


@dataclass
class Verdict:
    """Why something that was watched was ended; None while it was not."""

    reason: str | None = None


@contextmanager
def watched(watches: Iterable[tuple[str, Watch]]) -> Iterator[Verdict]:
    """Look at processes, each with its name for messages, from a thread of this one; what takes too much is ended."""
    verdict, over, watches = Verdict(), threading.Event(), list(watches)

    def look() -> None:
        looks = 0
        while not over.wait(LOADED_EVERY_S):
            looks += 1
            for name, watch in watches:
                if reason := watch.memory_or_tasks(anew=looks % LOOKS == 1):
                    verdict.reason = f"{name} {reason}, and was ended"
                    group.end(watch.pid, watch.uid)
                    return

    thread = threading.Thread(target=look, name="sandbox-watch", daemon=True)
    thread.start()
    try:
        yield verdict
    finally:
        over.set()
        thread.join()


def _memory(processes: list[group.Member]) -> str | None:
    import psutil  # here: every plan reads this module

    most, memory = limits.most_bytes(), psutil.virtual_memory()
    scarce = memory.available < memory.total * LEFT_PERCENT / 100
    resident = group.resident_bytes(processes)
    if resident <= most and not (scarce and resident > memory.total * MOST_SHARE):
        return None
    size = group.own_bytes(processes)
    if size > most:
        return f"had {size / 2**20:,.0f} MiB of memory; allowed are {most / 2**20:,.0f} ({limits.MEMORY})"
    if scarce and size > memory.total * MOST_SHARE:
        return (
            f"had {size / 2**20:,.0f} MiB of memory, and {memory.available / 2**20:,.0f} MiB were left to everything "
            f"else (less than {LEFT_PERCENT:g}% of this machine's)"
        )
    return None


def _bytes(folder: Path, owner: int | None) -> tuple[int, int]:
    """The room that the files below a folder take, and their number; only those of ``owner`` (None: anybody's)."""
    used, entries, waiting = 0, 0, [str(folder)]
    while waiting and entries <= ENTRIES_MOST:
        with suppress(OSError):  # removed meanwhile
            for entry in os.scandir(waiting.pop()):
                entries += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                status = entry.stat(follow_symlinks=False)
                if owner is None or status.st_uid == owner:
                    used += status.st_blocks * 512
    return used, entries
