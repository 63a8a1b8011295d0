"""How long threads ran and waited for a core: the kernel's ``schedstat`` files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")


def parse(text: bytes) -> tuple[int, int]:
    """Time on a core and time ready to run without one, ns; ValueError for any other text.

    ``<ns on a core> <ns waited> <time slices>``, see the kernel's Documentation/scheduler/sched-stats.rst.
    """
    fields = text.split()
    if len(fields) != 3:
        raise ValueError(f"{text!r} is no schedstat: three numbers are expected")
    return int(fields[0]), int(fields[1])


class ThreadWaits:
    """The waits for a core of this process's threads, in sum.

    A thread counts from when it is found (``find``); of one that ended its waits stay in the sum. The kernel adds a
    wait when the thread gets its core. The files stay open: a reading costs some microseconds a thread.
    """

    def __init__(self, proc: Path = _PROC / "self") -> None:
        self._tasks = proc / "task"
        self._files: dict[str, int] = {}
        self._last_ns: dict[str, int] = {}
        self._total_ns = 0
        self.find()

    @property
    def known(self) -> bool:
        """Whether the kernel keeps such statistics."""
        return bool(self._files)

    def find(self) -> None:
        """Open the files of new threads."""
        for name in os.listdir(self._tasks):
            if name in self._files:
                continue
            try:
                file = os.open(self._tasks / name / "schedstat", os.O_RDONLY)
            except OSError:
                continue  # it ended, or the kernel keeps no such statistics
            self._files[name] = file
            try:
                self._last_ns[name] = parse(os.pread(file, 100, 0))[1]
            except (OSError, ValueError):
                self._drop(name)

    def read_ns(self) -> int | None:
        """All waits since the threads were found; None where the kernel keeps no such statistics."""
        for name, file in list(self._files.items()):
            try:
                waited_ns = parse(os.pread(file, 100, 0))[1]
            except (OSError, ValueError):  # it ended
                self._drop(name)
                continue
            self._total_ns += waited_ns - self._last_ns[name]
            self._last_ns[name] = waited_ns
        return self._total_ns if self._files else None

    def close(self) -> None:
        """Close the files."""
        for name in list(self._files):
            self._drop(name)

    def _drop(self, name: str) -> None:
        os.close(self._files.pop(name))
        self._last_ns.pop(name, None)


def of_processes(pids: Iterable[int], proc: Path = _PROC) -> tuple[int, int] | None:
    """Time on a core and waits of all threads of these processes since they began, ns; None if none can be read."""
    run_ns = wait_ns = files = 0
    for pid in pids:
        for path in (proc / str(pid) / "task").glob("*/schedstat"):
            try:
                ran, waited = parse(path.read_bytes())
            except (OSError, ValueError):
                continue  # it ended
            run_ns, wait_ns, files = run_ns + ran, wait_ns + waited, files + 1
    return (run_ns, wait_ns) if files else None
