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
from inferbench_tasks.monitors.perf_samples import Ring, Sample, samples_of
from tests.unit.monitors.ring_file import SAMPLE_BYTES, SIZE, Kernel, lost, sample

_WHY = perf_samples.unavailable()
samples = pytest.mark.skipif(bool(_WHY), reason=f"this kernel takes no samples for this user: {_WHY}")
#: Two threads that compute for 50 ms each, one after the other; what was sampled, and the window, as numbers.
WORK = """
import os, threading, time
from inferbench_tasks.monitors.perf_samples import Ring, passed_on, samples_of
rings = [Ring(descriptor) for descriptor in passed_on(os.environ)]
def read():
    readings = [ring.read() for ring in rings]
    return [sample for each in readings for sample in samples_of(each.data)[0]], all(e.whole for e in readings)
read()
def burn():
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass
began = time.monotonic_ns()
thread = threading.Thread(target=burn)
thread.start(); thread.join(); burn()
ended = time.monotonic_ns()
found, whole = read()
inside = sum(began <= sample.time_ns <= ended for sample in found)
again = len(read()[0])
print(len(found), inside, int(whole), again, min(sample.address for sample in found))
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
    found, inside, whole, again, lowest = map(int, told.split())
    assert found > 100 and inside > 0.9 * found and whole
    assert again < found / 10 and 0 < lowest < 1 << 63


def test_a_kernel_that_takes_none_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what helps; a program is then started without."""

    def refused(about: bytes, core: int = -1) -> int:
        raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(perf_events, "asked", refused)
    assert perf_samples.opened_if_any([0]) == {} and perf_samples.named({}) == {}
    assert "perf_event" in (perf_samples.unavailable() or "")


def test_a_ring_is_read_over_its_end(tmp_path: Path) -> None:
    """A record that goes on at the buffer's beginning is one; records of other kinds are passed over; those that found
    no room are counted; then the kernel knows how far it was read."""
    kernel = Kernel(tmp_path / "ring", 5 * SIZE - 16)  # 16 bytes before the end, the fifth time around
    other = struct.pack("=IHHQQ", 1, 0, 24, 0, 0)
    kernel.ring.read()
    kernel.write(sample(7, 0x40), lost(3), other, sample(8, 0x50))
    data, whole = kernel.ring.read()
    assert samples_of(data) == ([Sample(7, 0x40), Sample(8, 0x50)], 3) and whole
    assert kernel.ring.read() == (b"", True)
    head, tail = kernel.places()
    assert head == tail == 5 * SIZE - 16 + len(data)
    kernel.ring.close()


@pytest.mark.parametrize(
    ("count", "whole"), [(SIZE // SAMPLE_BYTES - 3, True), (SIZE // SAMPLE_BYTES, False)]
)
def test_a_full_ring_is_known_before_the_kernel_says_so(tmp_path: Path, count: int, whole: bool) -> None:
    """Nothing in it tells of the sample that found no room, and perhaps nothing ever will."""
    kernel = Kernel(tmp_path / "ring")
    kernel.ring.read()
    kernel.write(*[sample(at) for at in range(count)])
    reading = kernel.ring.read()
    assert reading.whole is whole and samples_of(reading.data)[1] == 0
    kernel.write(sample(1))
    again = kernel.ring.read()
    assert again.whole and samples_of(again.data)[1] == (not whole)


def test_what_others_read_is_missing(tmp_path: Path) -> None:
    """Two readers of one ring take samples away from each other."""
    path = tmp_path / "ring"
    kernel = Kernel(path)
    with path.open("r+b") as file:
        other = Ring(file.fileno())
    kernel.ring.read()
    kernel.write(sample(1))
    other.read()
    kernel.write(sample(2))
    reading = kernel.ring.read()
    assert [each.time_ns for each in samples_of(reading.data)[0]] == [2] and not reading.whole
