"""A place of the data directory where things gather: what is there, and which setting bounds it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.upkeep.entry import Entry
from inferbench_tasks.upkeep.in_use import InUse


class Place:
    """``setting``: the environment variable with its bounds."""

    name: ClassVar[str]
    setting: ClassVar[str]

    def __init__(self, data_dir: Path, db: PerfDB, use: InUse) -> None:
        self.data_dir = data_dir
        self.db = db
        self.use = use

    def entries(self) -> list[Entry]:
        """All that is there and could be removed, and what keeps it. Raises PerfDBError."""
        raise NotImplementedError
