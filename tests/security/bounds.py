"""What an input of the corpus may cost, and what it may not leave behind: CPU time, memory, files, processes."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
MIB = 1024 * 1024
PR_SET_CHILD_SUBREAPER = 36
#: Files that Python's and the tests' own tools write wherever they work.
_TOOLS = ("__pycache__", ".hypothesis", ".coverage")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
#: Helpers, of Python and of the tests, which live as long as the process or the module that needs them.
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver", "tests.security.ask_hostile")


@dataclass
class Limits:
    """Of one input. ``cpu_s``: CPU time of this process and of children that ended, so that a busy machine does not
    decide. ``mib``: how much the peak of memory may lie above what was there before, here and in each child."""

    cpu_s: float = 5.0
    mib: float = 500.0
    #: Whether what is written elsewhere or left behind counts.
    traces: bool = True


@dataclass
class Cost:
    """What was measured; ``traces``: the files and processes that should not be."""

    cpu_s: float = 0.0
    mib: float = 0.0
    traces: list[str] = field(default_factory=list)

    def exceeds(self, limits: Limits) -> list[str]:
        """What is beyond the limits, in words; empty if nothing is."""
        reasons = list(self.traces) if limits.traces else []
        if self.cpu_s > limits.cpu_s:
            reasons.append(f"{self.cpu_s:.1f} s of CPU, at most {limits.cpu_s:g} s")
        if self.mib > limits.mib:
            reasons.append(f"{self.mib:.0f} MiB, at most {limits.mib:g} MiB")
        return reasons


class Writes:
    """Notes which files this process opens for writing, whoever of its libraries does, outside of some folders."""

    def __init__(self) -> None:
        self.paths: list[str] | None = None
        self._folders: tuple[str, ...] = ()
        sys.addaudithook(self._hook)  # there is no way to take one off again

    def start(self, *folders: Path) -> None:
        """From now on; what is written below ``folders`` is not noted."""
        self._folders = tuple(f"{folder.resolve()}{os.sep}" for folder in folders)
        self.paths = []

    def stop(self) -> list[str]:
        """What was noted."""
        paths, self.paths = self.paths or [], None
        return paths

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.paths is None:
            return
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, str | bytes) or not isinstance(flags, int) or not flags & _WRITES:
                return
            # By its name in a folder that is open (``strangers_folder``): which that is, nobody is told.
            if flags & os.O_NOFOLLOW and os.sep not in os.fsdecode(path):
                return
        elif event in ("os.mkdir", "os.symlink", "os.link", "os.rename"):
            path = arguments[0] if event == "os.mkdir" else arguments[1]
        else:
            return
        text = os.path.realpath(os.fsdecode(path)) if isinstance(path, str | bytes | os.PathLike) else ""
        if text.startswith(("/dev/null", "/proc/", *self._folders)) or any(t in text for t in _TOOLS):
            return
        self.paths.append(text)


@contextmanager
def measured(writes: Writes, *folders: Path) -> Iterator[Cost]:
    """Fills the cost of what happens within. ``folders``: where it may write."""
    cost = Cost()
    with _temporary() as temporary, _reaper():
        visible, children = _visible(), _children()
        before_mib, child_mib = _reset_peak(), _children_peak_mib()
        writes.start(temporary, *folders)
        began_s = cpu_s()
        try:
            yield cost
        finally:
            cost.cpu_s = cpu_s() - began_s
            cost.traces += [f"wrote {path}" for path in writes.stop()]
            own_mib = _peak_mib()
            cost.mib = own_mib - before_mib
            # Until a child starts its program its memory is this process's, and the kernel keeps that as its peak.
            if (peak_mib := _children_peak_mib()) > max(child_mib, own_mib):
                cost.mib = max(cost.mib, peak_mib)
            cost.traces += [f"left the process {name}" for name in _children() - children]
            if any(temporary.iterdir()):
                gc.collect()  # a temporary folder goes with who made it
            cost.traces += [f"left {path}" for path in sorted(temporary.rglob("*"))]
            cost.traces += [f"left {path}" for path in sorted(_visible() - visible)]


def cpu_s() -> float:
    """CPU time of this process, all its threads, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@contextmanager
def _temporary() -> Iterator[Path]:
    """A folder for temporary files, of children too: what is left in it shows."""
    earlier = tempfile.tempdir, os.environ.get("TMPDIR")
    # Short, for paths of Unix sockets.
    with tempfile.TemporaryDirectory(prefix="ib", ignore_cleanup_errors=True) as name:
        tempfile.tempdir = os.environ["TMPDIR"] = name
        try:
            yield Path(name)
        finally:
            tempfile.tempdir = earlier[0]
            os.environ.pop("TMPDIR")
            if earlier[1] is not None:
                os.environ["TMPDIR"] = earlier[1]


@contextmanager
def _reaper() -> Iterator[None]:
    """Orphans become this process's children meanwhile, and so are seen; those that ended are waited for."""
    libc = ctypes.CDLL(None)
    before = {child.pid for child in psutil.Process().children()}
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        for child in psutil.Process().children():
            with contextlib.suppress(psutil.Error, ChildProcessError):
                if child.pid not in before and child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)


def _children() -> set[str]:
    names = set()
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            command = " ".join(process.cmdline())
            if process.status() != psutil.STATUS_ZOMBIE and not any(name in command for name in _HELPERS):
                names.add(f"{process.pid} {command[:200]}")
    return names


def _visible() -> set[Path]:
    """What lies in the repository and the home, hidden things aside: caches of tools that run beside us."""
    return {path for folder in (ROOT, Path.home()) for path in folder.glob("[!.]*")}


def _reset_peak() -> float:
    """Start the peak of memory anew; what is in use, MiB."""
    Path("/proc/self/clear_refs").write_text("5")
    return psutil.Process().memory_info().rss / MIB


def _peak_mib() -> float:
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def _children_peak_mib() -> float:
    """Of the largest child that has ended so far."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
