"""Where a program's threads are, sampled by the kernel: a program that is started maps its rings itself."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from inferbench_tasks.monitors import perf_events, perf_samples
from inferbench_tasks.monitors.perf_samples import Ring, Sample

_WHY = perf_samples.unavailable()
samples = pytest.mark.skipif(bool(_WHY), reason=f"this kernel takes no samples for this user: {_WHY}")
#: Two threads that compute for 50 ms each, one after the other; what was sampled, and the window, as numbers.
WORK = """
import os, threading, time
from inferbench_tasks.monitors.perf_samples import Ring, passed_on
rings = [Ring(descriptor) for descriptor in passed_on(os.environ)]
for ring in rings:
    ring.read()
def burn():
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
began = time.monotonic_ns()
thread = threading.Thread(target=burn)
thread.start(); thread.join(); burn()
ended = time.monotonic_ns()
found = [sample for ring in rings for sample in ring.read()]
inside = sum(began <= sample.time_ns <= ended for sample in found)
again = sum(len(ring.read()) for ring in rings)
print(len(found), inside, sum(ring.lost for ring in rings), again, min(sample.address for sample in found))
"""


@samples
def test_a_program_and_its_threads_are_sampled() -> None:
    """All samples of its work are within its time by CLOCK_MONOTONIC, at addresses of user space; what was read is not
    read again. Kernels and virtual machines take fewer than one each 0.1 ms, but some hundreds of 100 ms."""
    descriptors = perf_samples.opened(os.sched_getaffinity(0))
    try:
        told = subprocess.run(
            [sys.executable, "-c", WORK],
            check=True,
            stdout=subprocess.PIPE,
            env=os.environ | perf_samples.named(descriptors),
            pass_fds=tuple(descriptors.values()),
        ).stdout
    finally:
        perf_samples.close(descriptors)
    found, inside, lost, again, lowest = map(int, told.split())
    assert found > 100 and inside > 0.9 * found and lost == 0
    assert again < found / 10 and 0 < lowest < 1 << 63


def test_a_kernel_that_takes_none_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what helps; a program is then started without."""

    def refused(about: bytes, core: int = -1) -> int:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(perf_events, "asked", refused)
    assert perf_samples.opened_if_any([0]) == {} and perf_samples.named({}) == {}
    assert "perf_event" in (perf_samples.unavailable() or "")


def record(kind: int, *values: int) -> bytes:
    """As the kernel writes it: its kind, nothing, its size, and the rest."""
    rest = struct.pack("=QIIQ", *values) if kind == 9 else struct.pack("=QQ", *values)
    return struct.pack("=IHH", kind, 0, 8 + len(rest)) + rest


def test_a_ring_is_read_over_its_end(tmp_path: Path) -> None:
    """A record that goes on at the buffer's beginning is one; records of other kinds are passed over; those that found
    no room are counted; then the kernel knows how far it was read."""
    path = tmp_path / "ring"
    page, size = os.sysconf("SC_PAGESIZE"), 64 * os.sysconf("SC_PAGESIZE")
    content = record(9, 0x40, 1, 2, 7) + record(2, 5, 3) + record(1, 0, 0) + record(9, 0x50, 1, 2, 8)
    tail = 5 * size - 16  # 16 bytes before the end, the fifth time around
    data = bytearray(size)
    data[-16:], data[: len(content) - 16] = content[:16], content[16:]
    head = bytearray(page)
    struct.pack_into("=QQ", head, 1024, tail + len(content), tail)
    path.write_bytes(head + data)
    with path.open("r+b") as file:
        ring = Ring(file.fileno())
        assert ring.read() == [Sample(7, 0x40), Sample(8, 0x50)] and ring.lost == 3
        assert ring.read() == []
        ring.close()
    assert struct.unpack_from("=QQ", path.read_bytes(), 1024) == (tail + len(content), tail + len(content))
