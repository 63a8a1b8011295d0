"""Disturbances by a second process group: ``python -m benchmarks.noise.injected KIND RATIO BURST_S`` until stdin ends.

``cpu``: spins, and ``memory``, ``cache``: copies beyond and within the last-level cache, a process for each core, all
in the same bursts; ``disk``: one process writes and waits for the disk. RATIO of the time is taken, in bursts of
BURST_S at random moments.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

KINDS = ("cpu", "memory", "cache", "disk")
_PIECE_BYTES = {"memory": 1 << 26, "cache": 1 << 21}
_DISK_BYTES = 1 << 20


def _work(kind: str) -> Callable[[], None]:
    """A piece of work that takes much less than a burst."""
    if kind == "cpu":
        return lambda: sum(range(2000)) and None
    if kind == "disk":
        file = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        content = os.urandom(_DISK_BYTES)

        def write() -> None:
            file.seek(0)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

        return write
    source = np.zeros(_PIECE_BYTES[kind] // 8)
    target = np.empty_like(source)
    length, at = 1 << 15, 0

    def copy() -> None:
        nonlocal at
        target[at : at + length] = source[at : at + length]
        at = (at + length) % len(source)

    return copy


def disturb(kind: str, ratio: float, burst_s: float) -> None:
    """Until standard input ends. The moments are the same in every process that starts within the same second."""
    work = _work(kind)
    rng = np.random.default_rng(int(time.time()))
    next_s = float(int(time.monotonic()) + 1)
    while True:
        next_s += float(rng.exponential(burst_s * (1 - ratio) / ratio))
        if select.select([sys.stdin], [], [], max(0.0, next_s - time.monotonic()))[0]:
            return
        next_s += burst_s
        while time.monotonic() < next_s:
            work()


@contextmanager
def injected(kind: str, ratio: float, burst_s: float) -> Iterator[None]:
    """Disturb the machine meanwhile."""
    count = 1 if kind == "disk" else os.cpu_count() or 1
    command = [sys.executable, "-m", "benchmarks.noise.injected", kind, str(ratio), str(burst_s)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) for _ in range(count)
    ]
    try:
        yield
    finally:
        for child in children:
            assert child.stdin is not None
            child.stdin.close()
        for child in children:
            child.wait(10)


if __name__ == "__main__":
    disturb(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
