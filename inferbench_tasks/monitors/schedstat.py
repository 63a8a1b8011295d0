"""How long threads ran and waited for a core: the kernel's ``schedstat`` files."""

from __future__ import annotations

import os
import threading
from collections.abc import Hashable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class SchedStat(NamedTuple):
    """Time on a core and time ready to run without one, ns; how often the thread got one."""

    ran_ns: int
    waited_ns: int
    runs: int


def parse(text: bytes) -> SchedStat:
    """``<ns on a core> <ns waited> <time slices>``; ValueError for any other text.

    See the kernel's Documentation/scheduler/sched-stats.rst.
    """
    fields = text.split()
    if len(fields) != 3:
        raise ValueError(f"{text!r} is no schedstat: three numbers are expected")
    return SchedStat(*map(int, fields))


class RunDelays:
    """The waits for a core of threads, each from its first reading; of one that ended its waits stay in the sum.

    The files stay open: a reading costs some microseconds a thread. The kernel adds a wait when the thread gets its
    core, so a wait shows whole, at its end.
    """

    def __init__(self) -> None:
        self._files: dict[Hashable, int] = {}
        self._texts: dict[Hashable, bytes] = {}
        self._last: dict[Hashable, SchedStat] = {}
        self.waited_ns = 0
        self.runs = 0

    def __bool__(self) -> bool:
        return bool(self._files)

    def watch(self, thread: Hashable, path: Path) -> None:
        """Its waits count from the next reading; nothing where it has ended, or the kernel keeps no statistics."""
        if thread not in self._files:
            with suppress(OSError):
                self._files[thread] = os.open(path, os.O_RDONLY)

    def read(self) -> int | None:
        """The longest that one thread waited since the last reading, ns; None where nothing can be read."""
        longest_ns = 0
        for thread, file in list(self._files.items()):
            try:
                text = os.pread(file, 100, 0)
                if text == self._texts.get(thread):  # it slept
                    continue
                now = parse(text)
            except (OSError, ValueError):  # it ended
                self._drop(thread)
                continue
            last = self._last.get(thread, now)
            self._texts[thread], self._last[thread] = text, now
            wait_ns = now.waited_ns - last.waited_ns
            self.waited_ns += wait_ns
            self.runs += now.runs - last.runs
            longest_ns = max(longest_ns, wait_ns)
        return longest_ns if self._files else None

    def last(self, thread: Hashable) -> SchedStat | None:
        """What was last read of a thread; None of one that is not watched."""
        return self._last.get(thread)

    def each_ns(self) -> dict[Hashable, int]:
        """What each thread that is watched has waited in its life, as last read, ns."""
        return {thread: stat.waited_ns for thread, stat in self._last.items()}

    def close(self) -> None:
        """Close the files."""
        for thread in list(self._files):
            self._drop(thread)

    def _drop(self, thread: Hashable) -> None:
        os.close(self._files.pop(thread))
        self._texts.pop(thread, None)
        self._last.pop(thread, None)


class ThreadWaits:
    """The waits for a core of this process's threads; each counts from when it is found (``find``).

    The thread that makes it is the one that ``read_ns`` tells apart.
    """

    def __init__(self, proc: Path = _PROC / "self") -> None:
        self._own = str(threading.get_native_id())
        self._tasks = proc / "task"
        self._delays = RunDelays()
        self.find()

    @property
    def known(self) -> bool:
        """Whether the kernel keeps such statistics."""
        return bool(self._delays)

    def find(self) -> None:
        """Look for new threads."""
        for name in os.listdir(self._tasks):
            self._delays.watch(name, self._tasks / name / "schedstat")
        self._delays.read()

    def read_ns(self) -> int | None:
        """All waits since the threads were found; None where the kernel keeps no such statistics."""
        return None if self._delays.read() is None else self._delays.waited_ns

    def own_ns(self) -> int | None:
        """Of them, in its whole life, what the thread that made this had waited at the last reading."""
        last = self._delays.last(self._own)
        return None if last is None else last.waited_ns

    def each_ns(self) -> dict[Hashable, int]:
        """Read again, then what each living thread has waited in its life."""
        self._delays.read()
        return self._delays.each_ns()

    def close(self) -> None:
        """Close the files."""
        self._delays.close()


def of_processes(pids: Iterable[int], proc: Path = _PROC) -> tuple[int, int] | None:
    """Time on a core and waits of all threads of these processes since they began, ns; None if none can be read."""
    run_ns = wait_ns = files = 0
    for pid in pids:
        for path in (proc / str(pid) / "task").glob("*/schedstat"):
            try:
                stat = parse(path.read_bytes())
            except (OSError, ValueError):
                continue  # it ended
            run_ns, wait_ns, files = run_ns + stat.ran_ns, wait_ns + stat.waited_ns, files + 1
    return (run_ns, wait_ns) if files else None
