"""Real faults, each put around a training while it runs. What they bind they bind for the thread that starts it.

A process keeps the cgroup, the cores and the network namespace of the thread that made it, so that torchrun, its ranks
and their loaders have the fault, and PerfDB and everybody else do not.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from inferbench_tasks.training import cold
from inferbench_tasks.training.stages import generate

_CLONE_NEWNET = 0x40000000
#: A rank is held back in pieces of this length, s: shorter than its steps, so that all of them are.
_PIECE_S = 0.002


class Impossible(Exception):
    """What this machine lacks for the fault."""


@contextmanager
def nothing(data: generate.Output) -> Iterator[None]:
    """A clean run."""
    yield


@contextmanager
def slow_disk(data: generate.Output, limit: str, value: int) -> Iterator[None]:
    """``limit``: ``read_bps`` (bytes/s) or ``read_iops`` (reads/s) of the disk that holds the data."""
    with throttled(os.stat(data.images_path).st_dev, limit, value):
        yield


@contextmanager
def throttled(device: int, limit: str, value: int) -> Iterator[None]:
    """The same of a disk by its number."""
    with cgroup("blkio") as group:
        name = f"{os.major(device)}:{os.minor(device)}"
        try:
            (group / f"blkio.throttle.{limit}_device").write_text(f"{name} {value}")
        except OSError as error:
            raise Impossible(f"reads of {name} can't be throttled: {error}") from error
        yield


@contextmanager
def cgroup(controller: str) -> Iterator[Path]:
    """One of version 1 with this thread, and what it starts, in it."""
    home = _cgroup_of(controller)
    group = Path("/sys/fs/cgroup") / controller / f"inferbench-fault-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise Impossible(f"no {controller} cgroup can be made: {error}") from error
    try:
        (group / "tasks").write_text(str(threading.get_native_id()))
        yield group
    finally:
        _remove(group, home)


@contextmanager
def cold_at_first(data: generate.Output, value: int) -> Iterator[None]:
    """The one array of the data set is out of the page cache, on a disk of ``value`` bytes/s; later epochs have it."""
    with open(data.images_path, "rb") as file:
        os.fsync(file.fileno())  # pages that are not written yet can't be dropped
    cold.drop([data.images_path])
    with slow_disk(data, "read_bps", value):
        yield


@contextmanager
def larger_files(data: generate.Output, factor: float) -> Iterator[None]:
    """Each JPEG file with ``factor`` times the width and height: as many times the pixels to decode, squared."""
    from PIL import Image

    for path in Path(data.images_path).rglob("*.jpg"):
        with Image.open(path) as image:
            size = (round(image.width * factor), round(image.height * factor))
            larger = image.convert("RGB").resize(size, Image.Resampling.BILINEAR)
        larger.save(path, "JPEG", quality=92)
    yield


@contextmanager
def on_one_core(data: generate.Output) -> Iterator[None]:
    """All ranks and loader processes on one core; the result is told so by the affinity of this process."""
    before = os.sched_getaffinity(0)
    try:
        for thread in (0, os.getpid()):
            os.sched_setaffinity(thread, {min(before)})
        yield
    finally:
        os.sched_setaffinity(0, before)  # the process keeps it, for the stage that looks at it


@contextmanager
def rank_held_back(data: generate.Output, share: float) -> Iterator[None]:
    """Rank 1 is stopped for ``share`` of its time. It waits for no core meanwhile, and nobody else uses one."""
    with beside(lambda ended: _hold_back(share, ended)):
        yield


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Have a thread do that meanwhile, until the event that it is given is set."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _hold_back(share: float, ended: threading.Event) -> None:
    rank = None
    while not ended.is_set():
        rank = rank if rank and rank.is_running() else _rank(1)
        if rank is None:
            time.sleep(0.2)
            continue
        try:
            rank.send_signal(signal.SIGSTOP)
            time.sleep(_PIECE_S * share)
            rank.send_signal(signal.SIGCONT)
        except psutil.NoSuchProcess:
            rank = None
        time.sleep(_PIECE_S * (1 - share))


def _rank(number: int) -> psutil.Process | None:
    for process in psutil.Process().children(recursive=True):
        try:
            is_rank = any("rank_main" in word for word in process.cmdline())
            if is_rank and process.environ().get("RANK") == str(number):
                return process
        except psutil.Error:
            continue  # it ended while it was looked at
    return None


@contextmanager
def slow_loopback(data: generate.Output, rate: str) -> Iterator[None]:
    """A loopback of its own for the training, with ``rate`` for all that the ranks send (tc's token bucket)."""
    try:
        unshare(_CLONE_NEWNET)
    except OSError as error:
        raise Impossible(f"no network namespace can be made: {error}") from error
    for command in ("ip link set lo up", f"tc qdisc add dev lo root tbf rate {rate} burst 128kb latency 2s"):
        done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
        if done.returncode:
            raise Impossible(f"{command}: {done.stderr.strip()}")
    yield  # the thread ends with it, and the namespace with its last process


def unshare(flags: int) -> None:
    """unshare(2) for this thread (os.unshare is of Python 3.12)."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _cgroup_of(controller: str) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Path("/sys/fs/cgroup") / controller / path.lstrip("/")
    raise Impossible(f"there is no cgroup controller {controller}")


def _remove(group: Path, home: Path) -> None:
    """What is still in it goes back first: the thread itself, and helpers that outlive the training."""
    for thread in (group / "tasks").read_text().split():
        try:
            (home / "tasks").write_text(thread)
        except ProcessLookupError:
            continue  # it has ended meanwhile
    group.rmdir()
