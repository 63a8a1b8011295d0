"""The rows of a benchmark: a file of JSON lines that later calls go on with, each row with what it was measured by.

A row counts only where all of that is as it is now: the commit with what is changed since, the processor, the number of
cores, torch, how the C library lays memory out, and the options that change what a row says. Others stay in the file,
and decide no gate.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from inferbench_tasks.monitors.environment import git_state
from inferbench_tasks.workers.devices import cpu_model

Row = dict[str, Any]
Work = TypeVar("Work")
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
        "tunables": os.environ.get("GLIBC_TUNABLES"),
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
            what = "of another commit, machine, torch, GLIBC_TUNABLES or options: they decide nothing here"
            print(f"{self.path} has {others} row(s) {what}", file=sys.stderr, flush=True)

    def _all(self) -> list[Row]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []


def options_of(doc: str | None, name: str) -> argparse.ArgumentParser:
    """What such benchmarks are asked: ``--tries``, ``--minutes`` and ``--rows``, a file called after ``name``."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=3, help="of what has no valid run")
    parser.add_argument("--minutes", type=float, help="start no run after so long")
    usual = Path(tempfile.gettempdir()) / f"training-{name}.jsonl"
    parser.add_argument("--rows", type=Path, default=usual, help="where rows are kept [%(default)s]")
    return parser


def is_valid(row: Mapping[str, Any]) -> bool:
    """Whether its run counts."""
    return row.get("verdict") == "valid"


def any_valid(rows: Sequence[Row]) -> bool:
    """Whether one of them decides."""
    return any(map(is_valid, rows))


def due(
    plan: Sequence[Work],
    kept: Rows,
    of: Callable[[Work, Row], bool],
    options: argparse.Namespace,
    decided: Callable[[list[Row]], bool] = any_valid,
) -> Iterator[Work]:
    """What is to be run, one after the other: all of the plan once, then again what is not ``decided``, up to
    ``options.tries`` rows of each; nothing after ``options.minutes``.

    ``of``: whether a row is of a work. Whoever takes a work adds its row to ``kept`` before asking for the next.
    """
    started_s = time.monotonic()
    for attempt in range(options.tries):
        for work in plan:
            if options.minutes and time.monotonic() - started_s > 60 * options.minutes:
                return
            mine = [row for row in kept.read() if of(work, row)]
            if len(mine) <= attempt and not decided(mine):
                yield work
