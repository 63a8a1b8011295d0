"""What the gateway is told by who starts it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from inferbench_tasks import private
from inferbench_tasks.provider.joining.tokens import FOLDER

FILE = "gateway.json"


@dataclass(frozen=True)
class Plan:
    """Where it listens, by which names workers know it, and what it sends them."""

    address: str
    port: int
    names: Sequence[str]
    dags: str
    submissions: str

    def write(self, home: Path) -> None:
        """For the process that will read it."""
        private.write(private.folder(home / FOLDER) / FILE, json.dumps(asdict(self)))

    @classmethod
    def read(cls, home: Path) -> Plan:
        """What was written."""
        return cls(**json.loads((home / FOLDER / FILE).read_text()))
