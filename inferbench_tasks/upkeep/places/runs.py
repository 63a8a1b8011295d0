"""``runs/``: a folder for each run, with its requests, logs, raw records and each stage's output.

What a result needs is in PerfDB. A run that failed after its load has no result with raw records: then its folder has
the only ones, and stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.artifacts.removal import DOOMED, remove_doomed, remove_folder
from inferbench_tasks.contracts.own_requests import FOLDERS
from inferbench_tasks.perfdb.files import measure
from inferbench_tasks.upkeep.entry import Entry, used_at
from inferbench_tasks.upkeep.places.base import Place
from inferbench_tasks.upkeep.sizes import allocated_bytes

#: What was measured: of a load, and of a training. What ``evaluate`` and ``trace`` send has times that are no figure's.
RAW = ("samples.parquet", "steps.parquet")
_AT_ONCE = 1000


class Runs(Place):
    """A run is one entry; the folders of the neighbours on its device are entries of their own."""

    name = "runs"
    setting = settings.KEEP_RUNS

    def entries(self) -> list[Entry]:
        folder = self.data_dir / "runs"
        remove_doomed(folder)
        paths = [
            path
            for path in folder.glob("*")
            if path.is_dir() and not path.is_symlink() and not path.name.startswith(DOOMED)
        ]
        known = self._known({_base(path) for path in paths})
        entries = []
        for path in paths:
            used_s = used_at(path)
            entries.append(
                Entry(
                    path,
                    allocated_bytes(path),
                    used_s,
                    partial(_remove, path, used_s),
                    "its submission is under way" if self.use.has_run(path.name) else "",
                    partial(self._unstored, path, known),
                )
            )
        return entries

    def _known(self, run_ids: Iterable[str]) -> set[str]:
        known: set[str] = set()
        ids = sorted(run_ids)
        for first in range(0, len(ids), _AT_ONCE):
            where = {"_id": {"$in": ids[first : first + _AT_ONCE]}}
            known |= set(
                self.db.retrying(
                    lambda where=where: self.db.collection("runs").distinct("_id", where),  # type: ignore[misc]
                    "finding runs",
                )
            )
        return known

    def _unstored(self, path: Path, known: set[str]) -> str:
        """Which raw records lie here only; a run that this PerfDB does not know may be another's."""
        if _base(path) not in known:
            return "PerfDB has no such run"
        raw = [
            file
            for name in RAW
            for file in path.rglob(name)
            if file.is_file() and file.relative_to(path).parts[0] not in FOLDERS
        ]
        if not raw:
            return ""
        where = {"metadata.run_id": _base(path)}
        stored = self.db.retrying(
            lambda: self.db.collection("fs.files").distinct("metadata.sha256", where), "finding stored files"
        )
        only_here = [file for file in raw if measure(file)[0] not in stored]
        return f"{only_here[0].relative_to(path)} is not in PerfDB" if only_here else ""


def _base(path: Path) -> str:
    """The run that a folder belongs to."""
    return path.name.partition(".beside")[0]


def _remove(path: Path, used_s: float) -> str:
    if used_at(path) != used_s:
        return "it was used meanwhile"
    remove_folder(path)
    return ""
