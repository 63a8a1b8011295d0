"""The wall clock that faults on hosts set."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.chaos.wall_clock import WallClock, missing

TELLS = """
import time
while input():
    before = time.monotonic()
    time.sleep(0.001)
    print(time.time(), time.monotonic() - before, flush=True)
"""


@pytest.mark.skipif(bool(missing()), reason=str(missing()))
def test_it_steps_under_a_program_that_runs_and_nothing_else_does(tmp_path: Path) -> None:
    """To and fro by half a minute, at once; the program goes on sleeping by the monotonic clock."""
    clock = WallClock(tmp_path)
    program = subprocess.Popen(
        [sys.executable, "-c", TELLS],
        env=os.environ | clock.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdin is not None and program.stdout is not None
    for ahead_s in (0, 30, -30, 0.5):
        clock.step(ahead_s)
        before = time.time()
        program.stdin.write("x\n")
        program.stdin.flush()
        told_s, slept_s = map(float, program.stdout.readline().split())
        assert before + ahead_s <= told_s <= time.time() + ahead_s
        assert 0.001 <= slept_s < 10
    program.communicate("\n", timeout=30)
