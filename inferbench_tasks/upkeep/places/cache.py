"""``cache/``: models, requests and conversions, which are made again when they are needed.

Each entry is used under its own lock (``artifacts.cache``), and says when it was used last: whoever finds one touches
its manifest. Environments have a place of their own; measured ceilings are no such entries and stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from inferbench_tasks import settings
from inferbench_tasks.artifacts.cache import MANIFEST
from inferbench_tasks.artifacts.removal import DOOMED, remove_doomed
from inferbench_tasks.upkeep.entry import Entry
from inferbench_tasks.upkeep.places.base import Place
from inferbench_tasks.upkeep.places.made import made_entry

#: Of what users bring: a folder for each model, with caches of its own.
_FOREIGN = "foreign"


class Cache(Place):
    """An entry is one artefact with its manifest."""

    name = "cache"
    setting = settings.KEEP_CACHE

    def entries(self) -> list[Entry]:
        return [
            made_entry(manifest, folder.parent / f".{folder.name}.lock", self._reason(folder))
            for manifest in self._manifests()
            for folder in [manifest.parent]
        ]

    def _manifests(self) -> Iterator[Path]:
        root = self.data_dir / "cache"
        for pattern in ("*", f"{_FOREIGN}/*/*"):
            for cache in root.glob(pattern):
                if pattern.startswith(_FOREIGN) and cache.is_symlink():
                    continue  # of a stranger's process: what lies elsewhere is not this cache's
                if cache.is_dir() and cache.name != _FOREIGN:
                    remove_doomed(cache)
                    yield from (
                        m for m in cache.glob(f"*/{MANIFEST}") if not m.parent.name.startswith(DOOMED)
                    )

    def _reason(self, folder: Path) -> str:
        if self.use.has_path(folder):
            return "a run that is under way uses it"
        if self.use.strangers:
            return f"{min(self.use.strangers)} is under way, and PerfDB does not know what it uses"
        return ""
