"""The host's name in lists of bricks' times, only where a device has times of more than one host: of one it says
nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from inferbench_tasks.brick_jobs import machines
from inferbench_tasks.brick_jobs.machines import LEVELS
from inferbench_tasks.brick_jobs.places import UNKNOWN
from inferbench_tasks.perfdb.store import PerfDB


class HostColumn:
    """By what PerfDB knows of hosts: each that measured at a setting has a level of its own there."""

    def __init__(self, db: PerfDB) -> None:
        self._machines = machines.read(db)
        fields = {"setting_id": 1, "home": 1, "host": 1, "setting.processor": 1}
        levels = db.retrying(lambda: list(db.collection(LEVELS).find({}, fields)), "reading bricks' hosts")
        self._of_device: defaultdict[str, set[str]] = defaultdict(set)
        self._of_setting: defaultdict[str, set[str]] = defaultdict(set)
        for level in levels:
            self._of_device[level["setting"]["processor"]].add(self._machine(level))
            self._of_setting[_setting_id(level)].add(self._name(level))

    def beside(
        self, documents: Sequence[Mapping[str, Any]], rows: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """The rows, each of the result at its place, with ``host`` behind ``device``; as they are where no device of
        theirs has times of several hosts."""
        hosts = defaultdict(set, {device: set(found) for device, found in self._of_device.items()})
        for document in documents:
            hosts[document["setting"]["processor"]].add(self._machine(document))
        if not any(len(hosts[row["device"]]) > 1 for row in rows):
            return list(rows)
        return [
            _behind_device(row, "host", self._name(document))
            for document, row in zip(documents, rows, strict=True)
        ]

    def of_settings(self, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Rows of settings with ``hosts``, the names of those that measured there; as ``beside``."""
        if not any(len(self._of_device[row["device"]]) > 1 for row in rows):
            return list(rows)
        return [_behind_device(row, "hosts", sorted(self._of_setting[row["setting_id"]])) for row in rows]

    def _machine(self, document: Mapping[str, Any]) -> str:
        return self._machines.of(self._machines.home_of(document, _setting_id(document)))

    def _name(self, document: Mapping[str, Any]) -> str:
        return self._machines.host_of(document, _setting_id(document)) or UNKNOWN


def _setting_id(document: Mapping[str, Any]) -> str:
    """Of a result; of a level too, where that of before hosts were kept has it as its own id."""
    return str(document.get("setting_id") or document["_id"])


def _behind_device(row: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    at = list(row).index("device") + 1
    items = list(row.items())
    return dict([*items[:at], (name, value), *items[at:]])
