"""Samples of runs that are longer than a ring holds, by rings that the test writes and by the kernel's own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inferbench_tasks.monitors import perf_samples
from inferbench_tasks.monitors.perf_reader import Reader
from tests.unit.monitors.ring_file import SAMPLE_BYTES, SIZE, Kernel, sample

_WHY = perf_samples.unavailable()
samples = pytest.mark.skipif(bool(_WHY), reason=f"this kernel takes no samples for this user: {_WHY}")
#: A ring holds so many.
ROOM = SIZE // SAMPLE_BYTES
#: As long as a test takes nobody looks.
NEVER_S = 3600.0
#: A process that computes so long, and how often its rings are read, of 1,024 samples each: how many samples, whether
#: none is missing, how many the kernel says to be; then those of a short run after it.
WORK = """
import os, sys, time
from inferbench_tasks.monitors import perf_samples
perf_samples._PAGES = 8
from inferbench_tasks.monitors.perf_reader import Reader
from inferbench_tasks.monitors.perf_samples import Ring, passed_on
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
reader = Reader([Ring(descriptor) for descriptor in passed_on(os.environ)], float(sys.argv[2]))
runs = []
for length_s in (float(sys.argv[1]), 0.05):
    reader.begin()
    end = time.thread_time() + length_s
    while time.thread_time() < end:
        pass
    runs.append(reader.end())
reader.close()
for run in runs:
    print(len(run.samples()), int(run.whole), run.lost)
"""


def until(reached: Callable[[], bool]) -> None:
    """Wait for it, 10 s at most."""
    deadline = time.monotonic() + 10
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_run_longer_than_the_ring_is_whole(tmp_path: Path) -> None:
    """Two and a half rings full, read while they fill: each sample once, in its order."""
    kernel = Kernel(tmp_path / "ring")
    reader = Reader([kernel.ring], 0.001)
    reader.begin()
    for first in range(0, ROOM * 5 // 2, ROOM // 2):
        kernel.write(*[sample(at) for at in range(first, first + ROOM // 2)])
        until(lambda: kernel.ring.filled_ratio < 0.25)
    run = reader.end()
    assert run.whole and [each.time_ns for each in run.samples()] == list(range(ROOM * 5 // 2))
    reader.close()


def test_a_run_that_lost_samples_is_known_and_says_nothing(tmp_path: Path) -> None:
    """The ring was full as it ended: it has no samples. The kernel tells of the 101 with the next one, in the run after
    it, which has all of its own."""
    kernel = Kernel(tmp_path / "ring")
    reader = Reader([kernel.ring], NEVER_S)
    reader.begin()
    kernel.write(*[sample(at) for at in range(ROOM + 100)])
    first = reader.end()
    assert not first.whole and first.samples() == [] and first.lost == 0
    reader.begin()
    kernel.write(sample(7))
    second = reader.end()
    assert second.whole and [each.time_ns for each in second.samples()] == [7] and second.lost == 0
    assert first.lost == 101
    reader.close()


def test_what_was_lost_before_a_run_is_not_its_loss(tmp_path: Path) -> None:
    """The ring ran full between two runs; that the kernel says so within the second one changes nothing of it."""
    kernel = Kernel(tmp_path / "ring")
    reader = Reader([kernel.ring], NEVER_S)
    kernel.write(*[sample(at) for at in range(ROOM + 100)])
    reader.begin()
    kernel.write(sample(7))
    run = reader.end()
    assert run.whole and [each.time_ns for each in run.samples()] == [7] and run.lost == 0
    reader.close()


def test_one_run_has_so_many_samples_and_no_more(tmp_path: Path) -> None:
    """Beyond the bound it has none and takes no more memory, and says that none was lost; unless the kernel lost some
    then, too."""
    kernel = Kernel(tmp_path / "ring")
    reader = Reader([kernel.ring], NEVER_S, most_bytes=10 * SAMPLE_BYTES)
    for count, whole in ((10, True), (11, False)):
        reader.begin()
        kernel.write(*[sample(at) for at in range(count)])
        run = reader.end()
        assert run.whole is whole and len(run.samples()) == (count if whole else 0)
        assert run.dropped is not whole
    reader.begin()
    kernel.write(*[sample(at) for at in range(ROOM + 100)])
    run = reader.end()
    assert not run.whole and not run.dropped
    reader.close()


@samples
@pytest.mark.parametrize(("every_s", "whole"), [(0.01, True), (NEVER_S, False)])
def test_the_kernels_own_samples_of_a_long_run(every_s: float, whole: bool) -> None:
    """1 s on a core are more than these rings hold, however coarse the kernel's timer: read while they come, none is
    missing; read at the end alone, it is known, and told how many. A short run after it is whole either way."""
    descriptors = perf_samples.opened(os.sched_getaffinity(0))
    try:
        told = subprocess.run(
            [sys.executable, "-c", WORK, "1.2", str(every_s)],
            check=True,
            stdout=subprocess.PIPE,
            env=os.environ | perf_samples.named(descriptors),
            pass_fds=tuple(descriptors.values()),
        ).stdout.splitlines()
    finally:
        perf_samples.close(descriptors)
    long, short = ([int(number) for number in line.split()] for line in told)
    assert short[0] > 50 and short[1:] == [1, 0]
    if not whole and long[1]:
        pytest.skip(f"this kernel takes fewer samples: {long[0]} of 1.2 s")
    assert long[1] == whole and (long[0] > 1024 and long[2] == 0 if whole else long[0] == 0 < long[2])
