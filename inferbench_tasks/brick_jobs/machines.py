"""Which data directories are of one machine, as they told of themselves; and whose is what names no host.

``brick_hosts`` has a document for each data directory that cut, timed or predicted bricks, with the running kernels
that it was on (``settings.boot_id``). Two that were ever on one are of one machine, also once that was started again.
Where nobody can tell a kernel each data directory is a machine.

Times and levels of before hosts were kept name none. They are a machine's own only where that is known: PerfDB is its
data directory's own, and nobody else was ever known to measure for it. That is decided once, when the data directory
tells of itself first; who leads later inherits nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inferbench_tasks.cluster.hosts import HOSTS as CLUSTER_HOSTS
from inferbench_tasks.cluster.hosts import Hosts
from inferbench_tasks.perfdb.store import PerfDB
from inferbench_tasks.perfdb.under_lease import DEVICES
from inferbench_tasks.perfdb.values import to_stored

HOSTS = "brick_hosts"
RESULTS, LEVELS, REFERENCES = "brick_results", "brick_levels", "brick_references"
#: Homes and sessions of what was taken in from elsewhere begin like this: nobody knows which machine that was.
SUITE = "suite-"
#: How what names no host is asked for.
UNNAMED: Mapping[str, Any] = {"$in": [None, ""]}


@dataclass(frozen=True)
class Machines:
    """``together``: data directory's id -> the one that stands for its machine; ``names``: -> its host's name;
    ``unnamed``: setting's id -> whose is what names no host there."""

    together: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    unnamed: Mapping[str, str] = field(default_factory=dict)

    def of(self, home: str) -> str:
        """What stands for the machine of that data directory; "" of none, which is a machine that is not known."""
        return self.together.get(home, home)

    def homes(self, home: str) -> frozenset[str]:
        """All data directories of the machine of that one."""
        return frozenset({home, *(other for other in self.together if self.of(other) == self.of(home))})

    def home_of(self, document: Mapping[str, Any], setting_id: str) -> str:
        """Of which data directory a time, or a level, of a setting is; "" where that is not known."""
        return str(document.get("home") or self.unnamed.get(setting_id, ""))

    def host_of(self, document: Mapping[str, Any], setting_id: str) -> str:
        """The host's name; "" where it is not known."""
        return str(document.get("host") or self.names.get(self.home_of(document, setting_id), ""))


def read(db: PerfDB) -> Machines:
    """What is known in PerfDB."""
    told = db.retrying(lambda: list(db.collection(HOSTS).find({}).sort("_id", 1)), "reading bricks' hosts")
    return Machines(
        together((one["_id"], one.get("boot_ids") or ()) for one in told),
        {one["_id"]: one.get("host") or "" for one in told},
        {setting: one["_id"] for one in told for setting in one.get("unnamed") or ()},
    )


def together(told: Iterable[tuple[str, Collection[str]]]) -> dict[str, str]:
    """Home -> the one that stands for all that were on one of its kernels, or on one of theirs."""
    groups: list[tuple[set[str], set[str]]] = []
    for home, boot_ids in told:
        homes, kernels = {home}, set(boot_ids)
        for group in [one for one in groups if one[1] & kernels]:
            groups.remove(group)
            homes |= group[0]
            kernels |= group[1]
        groups.append((homes, kernels))
    return {home: min(homes) for homes, _ in groups for home in homes}


def tell(db: PerfDB, home: str, host: str, boot_id: str, ours: bool) -> None:
    """Say that a data directory is on a running kernel. ``ours``: whether PerfDB is that data directory's own."""
    there = db.retrying(lambda: db.collection(HOSTS).find_one({"_id": home}), "reading bricks' hosts")
    if there is not None and (not boot_id or boot_id in there.get("boot_ids", ())):
        return
    first: dict[str, Any] = {"host": host, "told_at": db.now()}
    if there is None:
        first["unnamed"] = _unnamed(db) if ours and _alone(db, home, host, boot_id) else []
    change: dict[str, Any] = {"$setOnInsert": to_stored(first)}
    if boot_id:
        change["$addToSet"] = {"boot_ids": boot_id}
    db.retrying(
        lambda: db.collection(HOSTS).update_one({"_id": home}, change, upsert=True), "writing bricks' hosts"
    )


def _alone(db: PerfDB, home: str, host: str, boot_id: str) -> bool:
    """Whether no other machine is known to have measured for this PerfDB. Workers from before homes were told have
    their host's name alone."""
    leader = Hosts(db).leader()
    devices, told = _all(db, DEVICES, {"home": 1, "host": 1, "boot_id": 1}), _all(db, HOSTS, {"boot_ids": 1})
    here = {home, *(one.get("home") for one in devices if boot_id and one.get("boot_id") == boot_id)}
    here |= {one["_id"] for one in told if boot_id in one.get("boot_ids", ())}
    others = {
        leader[1] if leader else home,
        *(one["_id"] for one in [*told, *_all(db, CLUSTER_HOSTS, {"_id": 1})]),
    }
    others |= {one["home"] for one in [*devices, *_all(db, LEVELS, {"home": 1})] if one.get("home")}
    unlike = any(not one.get("home") and one.get("host") != host for one in devices)
    return not unlike and all(other in here or other.startswith(SUITE) for other in others)


def _unnamed(db: PerfDB) -> list[str]:
    """The settings whose level names no host, and was not brought by an imported suite."""
    settings = [one["_id"] for one in _all(db, LEVELS, {"home": 1}) if not one.get("home")]
    return [setting for setting in settings if not _imported(db, setting)]


def _imported(db: PerfDB, setting: str) -> bool:
    where = {"setting_id": setting, "home": UNNAMED, "session": {"$regex": f"^{SUITE}"}}
    return db.retrying(
        lambda: any(db.collection(name).find_one(where, {"_id": 1}) for name in (REFERENCES, RESULTS)),
        "reading bricks",
    )


def _all(db: PerfDB, collection: str, fields: Mapping[str, int]) -> list[dict[str, Any]]:
    return db.retrying(lambda: list(db.collection(collection).find({}, fields)), "reading bricks' hosts")
