"""The rows of a benchmark: a file of JSON lines that later calls go on with, each row with what it was measured by.

A row counts only where all of that is as it is now: the commit with what is changed since, the processor, the number of
cores, torch, and the options that change what a row says. Others stay in the file, and decide no gate.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from inferbench_tasks.monitors.environment import git_state
from inferbench_tasks.workers.devices import cpu_model

Row = dict[str, Any]
#: Where a row keeps what it was measured by.
BY = "measured_by"


def conditions(**options: Any) -> dict[str, Any]:
    """What decides whether a row still counts, as JSON has it."""
    commit, changed = git_state()
    return {
        "commit": f"{commit}+{_changes()}" if changed else commit,
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "torch": metadata.version("torch"),
        "options": options,
    }


def _changes() -> str:
    """Of tracked files; new ones are not seen."""
    folder = Path(__file__).resolve().parents[2]
    diff = subprocess.run(["git", "diff", "HEAD"], cwd=folder, stdout=subprocess.PIPE, check=True, timeout=60)
    return hashlib.sha256(diff.stdout).hexdigest()[:12]


@dataclass(frozen=True)
class Rows:
    """``by``: see ``conditions``."""

    path: Path
    by: Mapping[str, Any]

    def read(self) -> list[Row]:
        """Those that count, the oldest first."""
        return [row for row in self._all() if row.get(BY) == self.by]

    def add(self, row: Row) -> None:
        """Written to the disk before anything else runs."""
        with self.path.open("a") as file:
            file.write(json.dumps({**row, BY: self.by}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def say_others(self) -> None:
        """How many rows of other code, machines or options are left aside."""
        if others := len(self._all()) - len(self.read()):
            what = "of another commit, machine, torch or options: they decide nothing here"
            print(f"{self.path} has {others} row(s) {what}", file=sys.stderr, flush=True)

    def _all(self) -> list[Row]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []
