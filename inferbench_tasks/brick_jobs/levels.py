"""The levels of a setting: one for each machine, which all times of that machine are told at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from inferbench_tasks.brick_jobs.machines import LEVELS, Machines
from inferbench_tasks.bricks.measure.levels import level_of
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.values import to_plain


class Level(NamedTuple):
    """``id``: its document's; ``machine``: whose first session it is of, "" where that is not known."""

    id: str
    machine: str
    references_ns: dict[str, float]


def of_setting(setting_id: str) -> dict[str, Any]:
    """Where the levels of a setting are, one for each host; those of before hosts were kept have its id."""
    return {"$or": [{"_id": setting_id}, {"setting_id": setting_id}]}


class Levels:
    """Those of one setting, the first first."""

    def __init__(self, setting_id: str, found: Sequence[Mapping[str, Any]], machines: Machines) -> None:
        self._setting_id, self._machines = setting_id, machines
        self.all = [
            Level(
                str(one["_id"]),
                machines.of(machines.home_of(one, setting_id)),
                to_plain(one["references_ns"]),
            )
            for one in found
        ]
        self._by_id = {level.id: level for level in self.all}

    def has(self, level: str | None) -> bool:
        """Whether it is among them; nothing is."""
        return level is None or level in self._by_id

    def of(self, machine: str) -> Level | None:
        """The first of that machine: two data directories of it may each have begun with one of its own. None of a
        machine that is not known, and before its first session."""
        return next((level for level in self.all if machine and level.machine == machine), None)

    def apart(self, document: Mapping[str, Any]) -> float:
        """What the times of a result are to be divided by to be at its machine's level, as ``Session.at`` has it: 1
        where they are.

        ``level`` says which they were stored at; of before that was kept it is its data directory's own, else that
        which names no host.
        """
        home = str(document.get("home") or "")
        ids = [document.get("level"), f"{self._setting_id}/{home}" if home else None, self._setting_id]
        at = next((self._by_id[str(one)] for one in ids if str(one) in self._by_id), None)
        base = self.of(self._machines.of(self._machines.home_of(document, self._setting_id)))
        if at is None or base is None or at.id == base.id:
            return 1.0
        return level_of(at.references_ns, base.references_ns)


def read(db: PerfDB, setting_id: str, machines: Machines) -> Levels:
    """Those that PerfDB has."""
    found = db.retrying(
        lambda: list(
            db.collection(LEVELS).find(of_setting(setting_id)).sort([("created_at", 1), ("_id", 1)])
        ),
        "reading bricks' level",
    )
    return Levels(setting_id, found, machines)
