"""Old files are removed once a day, by a process behind all others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from inferbench_tasks.upkeep.clean import EVERY_S, due

COMMAND = [
    *(sys.executable, "-m", "inferbench_tasks.background"),
    *(sys.executable, "-m", "inferbench_tasks.cli.main", "clean", "--if-due"),
]


class Cleaning:
    """``inferbench clean`` of a data directory, from time to time."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._process: subprocess.Popen[bytes] | None = None

    def start_if_due(self, *, measuring: bool) -> bool:
        """Start one, unless there was one or something is measured; a cluster that always measures has one every other
        day all the same. Whether one was started.
        """
        if self._process is not None and self._process.poll() is None:
            return False
        if not due(self._data_dir, every_s=2 * EVERY_S if measuring else EVERY_S):
            return False
        self._process = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL)
        return True
