"""``submitted/`` and ``parts/``: what came by the form or by REST, and parts of large submissions, a file each.

Without it there is no DAG; the run's record stays.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.contracts.part import whole_of
from inferbench_tasks.upkeep.entry import Entry, used_at
from inferbench_tasks.upkeep.places.base import Place
from inferbench_tasks.upkeep.sizes import allocated_bytes

FOLDER = "submitted"
PARTS = "parts"
#: The ids of the DAGs that have a run which has not ended, a line each; the scheduler writes it.
UNFINISHED = "unfinished.txt"


class Submitted(Place):
    """An entry is one submission or part: it counts as used when it is submitted, a part when it begins."""

    name = "submitted"
    setting = settings.KEEP_SUBMITTED

    def entries(self) -> list[Entry]:
        return [
            Entry(
                path,
                allocated_bytes(path),
                used_s := used_at(path),
                partial(_remove, path.parent, path, used_s),
                self._reason(path),
            )
            for folder in (FOLDER, PARTS)
            for path in (self.data_dir / folder).glob("*.json")
        ]

    def _reason(self, path: Path) -> str:
        dag_id = path.name.removesuffix(".json")
        waits = dag_id in unfinished(path.parent)
        runs = any(invocation.startswith(f"{whole_of(dag_id)}-") for invocation in self.use.invocations)
        return "a run of it has not ended" if waits or runs else ""


def unfinished(folder: Path) -> set[str]:
    """The DAGs that have a run which has not ended, as the scheduler saw it last."""
    try:
        return set((folder / UNFINISHED).read_text(encoding="utf-8").split("\n"))
    except OSError:
        return set()


def _remove(folder: Path, path: Path, used_s: float) -> str:
    if used_at(path) != used_s or path.name.removesuffix(".json") in unfinished(folder):
        return "it was submitted again meanwhile"
    path.unlink(missing_ok=True)
    return ""
