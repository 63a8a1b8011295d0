"""The workers of one host, as stand-in processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

#: Each stand-in writes down its start and each signal that it gets, and ends at the second, or with its code at once.
STAND_IN = """
import os, signal, sys, time
path, code = sys.argv[1], sys.argv[2]
got = []
def note(text):
    with open(path, "a") as file: file.write(text + chr(10))
signal.signal(signal.SIGTERM, lambda *_: (note("TERM"), got.append(1)))
note(f"start {os.getpid()}")
if code: sys.exit(int(code))
while len(got) < 2: time.sleep(0.02)
"""
FLEET = """
import sys
from inferbench_tasks.workers import fleet
fleet.FIRST_PAUSE_S = 0.1
made = {name: [sys.executable, "-c", sys.argv[1], f"{sys.argv[2]}/{name}", code] for name, code in
        zip(("a", "b"), sys.argv[3].split(","))}
raise SystemExit(fleet.Fleet(made).run())
"""


def start(folder: Path, codes: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", FLEET, STAND_IN, str(folder), codes])


def lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []


def until(check: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_signals_reach_each_worker_and_one_that_died_is_started_again(tmp_path: Path) -> None:
    """The first signal and the second; nobody is started again after the first."""
    fleet = start(tmp_path, ",")
    until(lambda: lines(tmp_path, "a") and lines(tmp_path, "b"))
    os.kill(int(lines(tmp_path, "a")[0].split()[1]), signal.SIGKILL)
    until(lambda: len(lines(tmp_path, "a")) == 2)
    fleet.terminate()
    until(lambda: all("TERM" in lines(tmp_path, name) for name in "ab"))
    assert fleet.poll() is None
    fleet.terminate()
    assert fleet.wait(timeout=60) == 0
    assert [len(lines(tmp_path, name)) for name in "ab"] == [4, 3]


def test_workers_die_with_their_fleet(tmp_path: Path) -> None:
    """kill -9 of the fleet leaves no worker that nobody answers for."""
    fleet = start(tmp_path, ",")
    until(lambda: lines(tmp_path, "a") and lines(tmp_path, "b"))
    pids = [int(lines(tmp_path, name)[0].split()[1]) for name in "ab"]
    fleet.kill()
    fleet.wait()
    until(lambda: not any(psutil.pid_exists(p) and psutil.Process(p).status() != "zombie" for p in pids))


def test_bad_input_ends_all(tmp_path: Path) -> None:
    """A worker that can't work as asked is not started again and again; its exit code is the fleet's."""
    fleet = start(tmp_path, ",2")
    until(lambda: "TERM" in lines(tmp_path, "a"))
    fleet.terminate()
    assert fleet.wait(timeout=60) == 2
    assert len(lines(tmp_path, "b")) == 1
