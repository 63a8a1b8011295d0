"""Processes of the local system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil

from inferbench_tasks.provider.system import processes

#: Starts a child every two milliseconds, at most 300, until it is killed: some begin while the others are looked for.
BREEDER = """
import subprocess, time
for _ in range(300):
    subprocess.Popen(["sleep", "30"])
    time.sleep(0.002)
time.sleep(30)
"""


def test_orphans_are_gone_when_it_returns() -> None:
    """All processes with the variable have ended, also those that were started meanwhile; others live on."""
    name, value = "INFERBENCH_TEST_ORPHAN", uuid.uuid4().hex
    breeder = subprocess.Popen([sys.executable, "-c", BREEDER], env={**os.environ, name: value})
    other = subprocess.Popen(["sleep", "30"])
    try:
        while not psutil.Process(breeder.pid).children():
            time.sleep(0.001)
        processes.end_by_environment(name, value)
        left = [p for p in psutil.process_iter(["environ"]) if (p.info["environ"] or {}).get(name) == value]
        assert not left
        assert other.poll() is None
    finally:
        for process in (breeder, other):
            process.kill()
            process.wait()


def zombies() -> set[int]:
    return {p.pid for p in psutil.Process().children() if p.status() == psutil.STATUS_ZOMBIE}


def test_nothing_that_ended_stays_a_zombie(tmp_path: Path) -> None:
    """Neither a part that somebody killed, which the keeper has replaced, nor one that ignores SIGTERM: whoever started
    them has waited for both once it has ended another one.
    """
    before = zombies()
    sleeps = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.1; done"]
    killed, stubborn = (processes.start(name, sleeps, dict(os.environ), tmp_path) for name in ("one", "two"))
    try:
        deadline = time.monotonic() + 20
        while "ready" not in (tmp_path / "two.log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(killed.pid, signal.SIGKILL)
        while killed.alive():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        processes.end([stubborn], grace_s=0.2)
        assert zombies() <= before and not stubborn.alive()
    finally:
        processes.end([killed, stubborn], grace_s=0.0)
