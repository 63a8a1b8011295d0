"""Processes of the local system."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid

import psutil

from inferbench_tasks.provider.system import processes

#: A parent that starts another child each time the one before it is killed, for a while.
STUBBORN = "import subprocess, sys\nfor _ in range(50): subprocess.run(['sleep', '60'])"


def test_orphans_are_gone_when_it_returns() -> None:
    """All processes with the variable have ended, also those that were started meanwhile; others live on."""
    value = uuid.uuid4().hex
    env = {**os.environ, "INFERBENCH_TEST_ORPHAN": value}
    mine = [subprocess.Popen([sys.executable, "-c", STUBBORN], env=env) for _ in range(3)]
    other = subprocess.Popen(["sleep", "60"])
    try:
        processes.end_by_environment("INFERBENCH_TEST_ORPHAN", value)
        left = [
            p for p in psutil.process_iter(["environ"])
            if (p.info["environ"] or {}).get("INFERBENCH_TEST_ORPHAN") == value
        ]  # fmt: skip
        assert not left
        assert other.poll() is None
    finally:
        for process in (*mine, other):
            process.kill()
            process.wait()
