"""``cache/envs``: environments of backends and of other versions of a runtime, which are made again when needed.

Each is made and removed under its own lock, and says when it was used last (``backends.environments``).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from inferbench_tasks import settings
from inferbench_tasks.artifacts.removal import DOOMED, remove_doomed, remove_folder
from inferbench_tasks.backends.environments import COMPLETE, ENVIRONMENTS
from inferbench_tasks.upkeep.entry import Entry
from inferbench_tasks.upkeep.places.base import Place
from inferbench_tasks.upkeep.sizes import allocated_bytes


class Environments(Place):
    """An entry is one environment that is whole."""

    name = "environments"
    setting = settings.KEEP_CACHE

    def entries(self) -> list[Entry]:
        root = self.data_dir / "cache" / ENVIRONMENTS
        if not root.is_dir():
            return []
        remove_doomed(root)
        folders = [mark.parent for mark in root.glob(f"*/{COMPLETE}")]
        return [
            Entry(
                folder,
                allocated_bytes(folder),
                used_s,
                partial(_remove, folder, used_s),
                self._reason(),
            )
            for folder in folders
            if not folder.name.startswith(DOOMED)
            for used_s in [_used_at(folder)]
        ]

    def _reason(self) -> str:
        """A server does not say which one it runs in."""
        if self.use.runs or self.use.strangers:
            return f"{min(self.use.runs | self.use.strangers)} is under way, and may run in it"
        return ""


def _used_at(folder: Path) -> float:
    try:
        return (folder / COMPLETE).stat().st_mtime
    except OSError:
        return 0.0


def _remove(folder: Path, used_s: float) -> str:
    try:
        with FileLock(f"{folder}.lock").acquire(timeout=0):
            if _used_at(folder) != used_s:
                return "it was used meanwhile"
            remove_folder(folder)
    except Timeout:
        return "somebody makes it just now"
    return ""
