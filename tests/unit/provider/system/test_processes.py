"""Processes of the local system."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

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
