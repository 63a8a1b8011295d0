"""``cache/envs``: environments of backends and of other versions of a runtime, which are made again when needed.

Each is made and removed under its own lock, and says when it was used last (``backends.environments``).
"""

from __future__ import annotations

from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.artifacts.removal import DOOMED, remove_doomed
from inferbench_tasks.backends.environments import COMPLETE, ENVIRONMENTS
from inferbench_tasks.upkeep.entry import Entry
from inferbench_tasks.upkeep.places.base import Place
from inferbench_tasks.upkeep.places.made import made_entry


class Environments(Place):
    """An entry is one environment that is whole."""

    name = "environments"
    setting = settings.KEEP_CACHE

    def entries(self) -> list[Entry]:
        root = self.data_dir / "cache" / ENVIRONMENTS
        if not root.is_dir():
            return []
        remove_doomed(root)
        marks = [m for m in root.glob(f"*/{COMPLETE}") if not m.parent.name.startswith(DOOMED)]
        return [made_entry(mark, Path(f"{mark.parent}.lock"), self._reason()) for mark in marks]

    def _reason(self) -> str:
        """A server does not say which one it runs in."""
        if self.use.runs or self.use.strangers:
            return f"{min(self.use.runs | self.use.strangers)} is under way, and may run in it"
        return ""
