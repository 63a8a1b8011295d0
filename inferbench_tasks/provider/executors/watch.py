"""Which of the DAG files has to be read again: those whose folder of submissions has changed.

Airflow would read every DAG file again each few seconds to notice a new YAML. The submissions of this repository
alone are 2,500 tasks, and reading them takes ten seconds of CPU: of the CPU that jobs are measured on. So Airflow
reads on request (its own priority requests), and the scheduler looks at the folders, which costs a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from inferbench_tasks.stamps import Stamp, stamp

#: DAG file -> the folders that it makes DAGs of.
Folders = Mapping[str, Callable[[], list[Path]]]
#: DAG file -> (when it was last read to its end, when that reading began); Unix time.
LastRead = Mapping[str, tuple[float, float]]
#: A reading that has not come to its end within this time is asked for again.
PATIENCE_S = 60.0


@dataclass(slots=True)
class _Pending:
    changed_s: float
    asked_s: float | None = None
    read_s: float | None = None
    """The end of the last reading when it was asked for."""


class FolderWatch:
    """Remembers what the folders held and which changes have not been read yet."""

    def __init__(self, folders: Folders) -> None:
        self._folders = folders
        self._seen = {name: _signature(look()) for name, look in folders.items()}
        self._pending: dict[str, _Pending] = {}

    @property
    def dag_files(self) -> frozenset[str]:
        """The names of all DAG files that are watched."""
        return frozenset(self._folders)

    def look(self, now_s: float) -> bool:
        """Whether something has changed that was not read yet."""
        for name, folders in self._folders.items():
            if (signature := _signature(folders())) != self._seen[name]:
                self._seen[name] = signature
                self._pending[name] = _Pending(now_s)
        return bool(self._pending)

    def to_ask_for(self, last: LastRead, now_s: float) -> set[str]:
        """The files to ask for now.

        Airflow drops a request for a file that it is just reading, and what it reads may be older than the change:
        only a reading that began after the change settles it.
        """
        names = set()
        for name, pending in list(self._pending.items()):
            read_s, began_s = last.get(name, (None, None))
            if began_s is not None and began_s > pending.changed_s:
                del self._pending[name]
            elif pending.asked_s is None or pending.read_s != read_s or now_s - pending.asked_s > PATIENCE_S:
                names.add(name)
                pending.asked_s, pending.read_s = now_s, read_s
        return names


def _signature(folders: list[Path]) -> frozenset[tuple[str, Stamp]]:
    """Path and stamp of every file."""
    entries = set()
    for folder in folders:
        for path in folder.rglob("*"):
            try:
                entries.add((str(path), stamp(path)))
            except OSError:
                continue  # it has gone meanwhile
    return frozenset(entries)


def dag_files() -> Folders:
    """Those of ours that this installation has."""
    from inferbench_tasks import settings
    from inferbench_tasks.provider.loader import dags_dir, submissions_dir
    from inferbench_tasks.provider.nightly.dag import nightly_dir
    from inferbench_tasks.provider.parts.shelf import PartShelf
    from inferbench_tasks.provider.submit.shelf import Shelf

    folders_by_name: dict[str, Callable[[], list[Path]]] = {
        "submissions.py": lambda: [submissions_dir()],
        # Its form lists the folder's names.
        "submit.py": lambda: [Shelf(settings.data_dir()).folder, submissions_dir()],
        "parts.py": lambda: [PartShelf(settings.data_dir()).folder],
        "nightly.py": lambda: [nightly_dir()],
    }
    return {name: folders for name, folders in folders_by_name.items() if (dags_dir() / name).is_file()}
