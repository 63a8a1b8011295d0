"""The system's logs: of each run's tasks, of each day's reading of DAG files, and of the processes themselves."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.artifacts.removal import DOOMED, remove_doomed, remove_folder
from inferbench_tasks.running.invocation import dag_run_invocation
from inferbench_tasks.upkeep.entry import Entry, used_at
from inferbench_tasks.upkeep.places.base import Place
from inferbench_tasks.upkeep.sizes import allocated_bytes

#: A process's log is cut to its newest part once it is so long: the process goes on writing into it.
LONGEST_BYTES, KEPT_BYTES = 64_000_000, 16_000_000


class Logs(Place):
    """Of what ``inferbench up`` started; Airflow writes a folder for each DAG run, and one for each day."""

    name = "logs"
    setting = settings.KEEP_LOGS

    def entries(self) -> list[Entry]:
        logs = self.data_dir / "system" / "logs"
        entries = [self._of_run(path) for path in logs.glob("dag_id=*/run_id=*") if path.is_dir()]
        for parser in ("dag_processor", "scheduler"):
            remove_doomed(logs / parser)
            days = (p for p in (logs / parser).glob("*-*-*") if p.is_dir() and not p.is_symlink())
            entries += [
                Entry(path, allocated_bytes(path), used_s := used_at(path), partial(_remove, path, used_s))
                for path in days
            ]
        entries += [
            _of_process(path) for path in logs.glob("*.log") if path.is_file() and path.stat().st_size
        ]
        return [entry for entry in entries if not entry.path.name.startswith(DOOMED)]

    def _of_run(self, path: Path) -> Entry:
        used_s = max([used_at(path), *(used_at(task) for task in path.iterdir() if task.is_dir())])
        dag_id, run_id = (part.partition("=")[2] for part in (path.parent.name, path.name))
        runs = dag_run_invocation(dag_id, run_id) in self.use.invocations
        return Entry(
            path, allocated_bytes(path), used_s, partial(_remove, path, used_s),
            "its run has not ended" if runs else "",
        )  # fmt: skip


def _of_process(path: Path) -> Entry:
    """It may go once the process has been silent for long; one that has grown long is cut."""
    long = path.stat().st_size > LONGEST_BYTES
    return Entry(
        path,
        allocated_bytes(path),
        used_at(path),
        partial(_cut, path, KEPT_BYTES if long else 0),
        overdue=f"it is longer than {LONGEST_BYTES // 10**6} MB: the newest {KEPT_BYTES // 10**6} MB stay"
        if long
        else "",
    )


def _cut(path: Path, kept_bytes: int) -> str:
    """Leave the newest part of a log that a process has open: it appends to the same file, whatever its length."""
    with open(path, "rb") as log:
        log.seek(max(0, os.fstat(log.fileno()).st_size - kept_bytes))
        end = log.read(kept_bytes)
    with open(path, "ab") as log:
        log.truncate(0)
        log.write(end)
    return ""


def _remove(path: Path, used_s: float) -> str:
    if used_at(path) > used_s:
        return "it was written to meanwhile"
    remove_folder(path)
    return ""
