"""The submissions of ``inferbench paper``: what is done is kept, and a signal ends the one that runs."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer

from inferbench_tasks.contracts.verdict import Verdict
from inferbench_tasks.output import say

_RUN = (sys.executable, "-m", "inferbench_tasks.cli.main", "run", "--inline")
#: What is older is measured again: a page is of one machine in one state.
KEPT_S = 24 * 3600.0


class Done:
    """What earlier calls have finished: a file of the data directory, written whole after each submission."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._rows: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # none yet, or not ours: everything is measured
            self._rows = {}

    def row(self, file: Path, version: str) -> dict[str, Any] | None:
        """What became of this very submission under this version of InferBench; None unless all its runs are valid."""
        row = self._rows.get(file.stem)
        if row is None or (row["digest"], row["version"]) != (_digest(file), version):
            return None
        fresh = time.time() - row["ended_at"] < KEPT_S
        return row if fresh and row["runs"] and row["valid"] == row["runs"] else None

    def keep(self, file: Path, version: str, row: dict[str, Any]) -> None:
        """Remember it, whatever it came to."""
        kept = {**row, "digest": _digest(file), "version": version, "ended_at": time.time()}
        self._rows[file.stem] = kept
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        partial.write_text(json.dumps(self._rows), encoding="utf-8")
        partial.replace(self._path)

    def forget(self, files: Iterable[Path]) -> None:
        """These are measured again; nothing is lost of the others."""
        for file in files:
            self._rows.pop(file.stem, None)


class Child:
    """``inferbench run`` of one file; a signal that ends this process ends that one first, in order."""

    def __init__(self, command: Sequence[str] = _RUN) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped_by: int | None = None
        self._starting = False

    def run(self, file: Path) -> dict[str, Any]:
        """What became of it. typer.Exit once a signal stopped it and it has ended."""
        command = [*self._command, str(file), "-o", "json"]
        self._starting = True
        # In a session of its own: a Ctrl-C reaches it through this process alone, once.
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        self._starting = False
        if self._stopped_by is not None:  # a signal came while it was being started
            self._process.send_signal(signal.SIGTERM)
        printed, _ = self._process.communicate()
        code, self._process = self._process.returncode, None
        if self._stopped_by is not None:
            say(
                "Stopped. What was measured stays; the same command goes on with the submission that was under way."
            )
            raise typer.Exit(128 + self._stopped_by)
        return row_of(file, code, printed)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Within it Ctrl-C, SIGTERM and SIGHUP end the run that is under way in order, a second one at once."""
        before = {number: signal.signal(number, self._stop) for number in _ENDING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped_by = self._stopped_by or number
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
        elif not self._starting:
            raise typer.Exit(128 + number)


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def row_of(file: Path, code: int, printed: bytes) -> dict[str, Any]:
    """What became of one submission: its report, and how many of its runs count."""
    runs = json.loads(printed) if printed.strip() else []
    verdicts = [Verdict.read(run["verdict"]) for run in runs]
    return {
        "submission": file.stem,
        "valid": sum(verdict.valid for verdict in verdicts),
        "disturbed": sum(verdict.bounds_only for verdict in verdicts),
        "runs": len(runs),
        "run_ids": [run["run_id"] for run in runs],
        "report": runs[0]["report"] if runs else None,
        "exit_code": code,
    }


def not_here(file: Path, reason: str) -> dict[str, Any]:
    """The row of a submission whose server is not installed."""
    say(f"{file.stem} is left out: {reason}")
    return row_of(file, 0, b"")


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
